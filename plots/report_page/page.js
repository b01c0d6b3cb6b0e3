// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
// Theme, sortable tables and copy buttons; the page reads as well without any of them.
"use strict";
(() => {
  const root = document.documentElement;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  // A cell sorts by data-v where it has one, else by its text.
  const keyOf = (row, column) => {
    const cell = row.cells[column];
    const value = cell.dataset.v ?? cell.textContent.trim();
    const number = Number(value);
    return value === "" || Number.isNaN(number) ? value.toLowerCase() : number;
  };
  for (const header of document.querySelectorAll("table.sortable th")) {
    header.querySelector("button").addEventListener("click", () => {
      const column = header.cellIndex, body = header.closest("table").tBodies[0];
      const down = header.getAttribute("aria-sort") === "ascending";
      for (const other of header.parentNode.cells) other.removeAttribute("aria-sort");
      header.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows].map((row) => [keyOf(row, column), row]);
      rows.sort(([a], [b]) => {
        if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
        return (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1);
      });
      for (const [, row] of rows) body.append(row);
    });
  }

  // A link into a closed part opens it.
  const open = () => {
    const part = location.hash ? document.getElementById(location.hash.slice(1)) : null;
    part?.querySelector("details.part")?.setAttribute("open", "");
  };
  addEventListener("hashchange", open);
  open();

  for (const button of document.querySelectorAll(".command button")) {
    button.addEventListener("click", async () => {
      const text = button.parentNode.querySelector("pre").textContent;
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "copied";
      } catch {
        getSelection().selectAllChildren(button.parentNode.querySelector("pre"));
        button.textContent = "selected";
      }
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    });
  }
})();
