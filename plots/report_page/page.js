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
  const sort = (header) => {
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
  };

  // What a part holds besides its text is packed until somebody opens it.
  const unpacked = async (node) => {
    const bytes = Uint8Array.from(atob(node.textContent.trim()), (c) => c.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  };
  window.unpacked = unpacked; // for the player
  const show = async (body) => {
    body.hidden = false;
    body.parentNode.querySelector(".opens").setAttribute("aria-expanded", "true");
    const source = body.querySelector("script.packed");
    if (!source) return;
    source.remove();
    body.querySelector(".later").innerHTML = await unpacked(source);
  };
  const hide = (body) => {
    body.setAttribute("hidden", "until-found");
    body.parentNode.querySelector(".opens").setAttribute("aria-expanded", "false");
  };
  for (const body of document.querySelectorAll(".part > .body")) {
    body.addEventListener("beforematch", () => show(body));
  }

  const copy = async (button) => {
    const pre = button.parentNode.querySelector("pre");
    try {
      await navigator.clipboard.writeText(pre.textContent);
      button.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(pre);
      button.textContent = "selected";
    }
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.matches("table.sortable th button")) sort(button.parentNode);
    if (button.matches(".command button")) copy(button);
    if (button.matches(".opens")) {
      const body = document.getElementById(button.getAttribute("aria-controls"));
      if (body.hidden) show(body);
      else hide(body);
    }
    if (button.matches(".zoom")) {
      const large = button.closest("figure").classList.toggle("large");
      button.setAttribute("aria-pressed", large);
      button.textContent = large ? "reduce" : "enlarge";
    }
  });

  // A link to a closed part opens it.
  const open = async () => {
    const part = location.hash ? document.getElementById(location.hash.slice(1)) : null;
    const body = part?.querySelector(":scope > .body[hidden]");
    if (!body) return;
    await show(body);
    part.scrollIntoView();
  };
  addEventListener("hashchange", open);
  open();

  // Shows what holds every word that was typed, and what the other fields ask for.
  const narrow = (field, items, count, also = () => true) => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let kept = 0;
    for (const item of items) {
      item.hidden = !also(item) || words.some((w) => !item.textContent.toLowerCase().includes(w));
      kept += !item.hidden;
    }
    count.textContent = kept === items.length ? "" : `${kept} of ${items.length}`;
  };
  const $ = (id) => document.getElementById(id);
  if ($("claim-filter")) {
    $("claim-filter").hidden = false;
    const rows = [...document.querySelectorAll("#claims tbody tr")];
    const papers = [...document.querySelectorAll("#claims details.claims-of")];
    const before = papers.map((paper) => paper.open);
    const fields = ["claim-search", "claim-verdict", "claim-paper"];
    const apply = () => {
      narrow($("claim-search"), rows, $("claim-count"), (row) =>
        (!$("claim-verdict").value || row.dataset.verdict === $("claim-verdict").value) &&
        (!$("claim-paper").value || row.dataset.paper === $("claim-paper").value));
      const asked = fields.some((id) => $(id).value);
      papers.forEach((paper, place) => { // open what was found
        const found = [...paper.querySelectorAll("tbody tr")].some((row) => !row.hidden);
        paper.hidden = !found;
        paper.open = asked ? found : before[place];
      });
    };
    for (const id of fields) {
      $(id).addEventListener("input", apply);
    }
    apply(); // a browser may have kept what was typed
  }
  if ($("result-filter")) {
    $("result-filter").hidden = false;
    const links = [...document.querySelectorAll("#results .index li")];
    const apply = () => narrow($("result-search"), links, $("result-count"));
    $("result-search").addEventListener("input", apply);
    apply();
  }
})();
