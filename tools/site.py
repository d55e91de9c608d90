"""Hooks of mkdocs: pages outside docs/, decision records in the navigation, and kinds of code blocks."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

from mkdocs.config.config_options import ExtraScriptValue
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages outside docs/, and their names on the site."""
SHIM = "assets/iframe-worker.js"
"""Lets the search work in pages that are read from the disk, without fetching anything."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the decision records, oldest first, and replace what would be fetched from elsewhere."""
    config.extra["polyfills"] = [ExtraScriptValue(SHIM)]
    records = [f"adr/{path.name}" for path in sorted((ROOT / "docs" / "adr").glob("*.md"))]
    for section in config.nav or []:
        for entry in section.get("Design", []):
            if "Decisions" in entry:
                entry["Decisions"] = records
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside docs/, and the files they link to."""
    for name, page in PAGES.items():
        content, linked = moved_to_site((ROOT / name).read_text(encoding="utf-8"))
        files.append(File.generated(config, page, content=content))
        for path in linked:
            if files.get_file_from_path(path) is None:
                files.append(File.generated(config, path, content=(ROOT / path).read_bytes()))
    shim = (ROOT / "tools" / "iframe-worker.js").read_text(encoding="utf-8")
    files.append(File.generated(config, SHIM, content=shim))
    return files


def moved_to_site(text: str) -> tuple[str, list[str]]:
    """A page of the top folder with its links as they are on the site, and the files to add for them."""
    linked = []

    def moved(found: re.Match[str]) -> str:
        target, anchor = found[1], found[2] or ""
        if "://" in target or not target:
            return found[0]
        if target.startswith("docs/"):
            target = target.removeprefix("docs/")
        elif target in PAGES:
            target = PAGES[target]
        else:
            linked.append(target)
        return f"]({target or '.'}{anchor})"

    return re.sub(r"\]\(([^)#]*)(#[^)]*)?\)", moved, text), linked


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Blocks are marked for tests (`sql bad`, `walk a stream`); here only the language counts.

    A bar in code in a table is written with a backslash, which this Markdown would show.
    """
    for name, page in PAGES.items():
        markdown = markdown.replace(f"](../{name}", f"]({page}")
    markdown = re.sub(
        r"^\|.*\|$", lambda row: re.sub(r"`([^`]*\\\|[^`]*)`", _code, row[0]), markdown, flags=re.MULTILINE
    )
    markdown = re.sub(r"^```walk .*$", "```text", markdown, flags=re.MULTILINE)
    return re.sub(r"^```(\w+) [^\n{]*$", r"```\1", markdown, flags=re.MULTILINE)


def _code(found: re.Match[str]) -> str:
    return f"<code>{escape(found[1].replace(chr(92) + '|', '|')).replace('|', '&#124;')}</code>"
