"""How the course is written: notebooks, pages and teaching material are made from `lessons/`."""
