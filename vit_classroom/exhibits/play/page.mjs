// "See it think" in the web book: the view with the course's weights, computed in workers. Nothing leaves the page.
import { start } from "./view.mjs";
import { inBackground } from "./worker.mjs";

const here = (name) => new URL(name, import.meta.url);
const WEIGHTS = { drawing: "shapes-vit.safetensors", photo: "cifar-vit.safetensors" };
const engines = {};

/** Start the engine for a kind of image once; the large one only when a photo is chosen. */
function engine(kind, loaded) {
  engines[kind] ??= inBackground(here(WEIGHTS[kind]), loaded).catch((error) => { delete engines[kind]; throw error; });
  return engines[kind];
}

async function open(place) {
  if (location.protocol === "file:") {
    place.textContent = "A browser opens this page from a web server only. In the folder of the course run “python -m http.server -d build/book” and open http://localhost:8000.";
    return;
  }
  const first = engine("drawing", () => {});
  const [kept, source] = await Promise.all([fetch(here("samples.json")), fetch(here("engine.mjs"))]);
  const samples = (await kept.json()).map((sample) => ({ ...sample, pixels: Uint8Array.from(atob(sample.pixels), (letter) => letter.charCodeAt(0)) }));
  place.replaceChildren();
  await start(place, { engine, samples, source: await source.text(), sizes: JSON.parse(place.dataset.sizes), lessons: JSON.parse(place.dataset.lessons), draws: true, address: true }).ready;
  await first;
}

const place = document.getElementById("play");
open(place).catch((error) => { place.textContent = `The model cannot be loaded. ${error.message}`; });
