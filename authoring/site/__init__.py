"""The pages: the web book, the README's tables, glossary and maps."""
