// node run_engine.mjs <weights> <asked>: answers each line of a file of questions as a line of JSON, numbers in base64.
import { readFileSync } from "node:fs";
import { createEngine } from "../../../vit_classroom/exhibits/play/engine.mjs";

const [weights, asked] = process.argv.slice(2), bytes = readFileSync(weights);
const engine = createEngine(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
const text = (array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength).toString("base64");
for (const line of readFileSync(asked, "utf8").trim().split("\n")) {
  const { pixels, keep, positions, heads } = JSON.parse(line);
  const answer = engine.run({ pixels: Buffer.from(pixels, "base64"), keep, positions, heads, detail: true });
  console.log(JSON.stringify(Object.fromEntries(Object.entries(answer).map(([name, array]) => [name, text(array)]))));
}
