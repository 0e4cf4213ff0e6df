"use strict";
// The table of configurations: sorting, filtering, and the details of the selected row. No library, no network.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const body = document.querySelector("#configurations tbody");
  const heads = [...document.querySelectorAll("#configurations th")];
  const text = document.getElementById("filter");
  const standing = document.getElementById("standing");
  const count = document.getElementById("count");
  const details = document.getElementById("details");
  let order = { key: null, down: false };
  let selected = null;
  let view = null;

  const element = (tag, words, name) => {
    const made = document.createElement(tag);
    if (words !== undefined) made.textContent = words;
    if (name) made.className = name;
    return made;
  };

  const rows = data.configurations.map((one, place) => {
    const row = element("tr");
    row.tabIndex = 0;
    row.dataset.id = one.id;
    const badge = element("span", one.standing_words, `badge ${one.standing}`);
    const cell = element("td");
    cell.append(badge);
    row.append(element("td", one.name), element("td", one.speed_words, "number"));
    row.append(element("td", one.peak_words, "number"), cell, element("td", one.loss_words, "number"));
    row.append(element("td", one.rounds === null ? "-" : one.rounds, "number"), element("td", one.proof || "-"));
    row.append(element("td", one.why, "why"));
    row.addEventListener("click", () => select(one.id, true));
    row.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); select(one.id, true); }
    });
    return { one, row, place, words: [one.name, one.standing_words, one.why, one.proof].join(" ").toLowerCase() };
  });

  // Missing values come last whichever way the column is sorted: they are neither small nor large.
  const compare = (a, b) => {
    if (order.key === null) return a.place - b.place;
    const [x, y] = [a.one[order.key], b.one[order.key]];
    if (x === null || y === null) return (x === null) - (y === null) || a.place - b.place;
    const sign = typeof x === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
    return (order.down ? -sign : sign) || a.place - b.place;
  };

  const show = () => {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = rows.filter(({ one, words: own }) =>
      (!standing.value || one.standing === standing.value) && words.every((word) => own.includes(word)));
    body.replaceChildren(...kept.sort(compare).map(({ row }) => row));
    count.textContent = kept.length === rows.length ? `${rows.length} configurations` : `${kept.length} of ${rows.length}`;
  };

  heads.forEach((head) => head.querySelector("button").addEventListener("click", () => {
    const key = head.dataset.key;
    const numeric = head.classList.contains("number");
    order = order.key === key ? { key, down: !order.down } : { key, down: numeric };
    heads.forEach((other) => other.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", order.down ? "descending" : "ascending");
    show();
  }));
  text.addEventListener("input", show);
  standing.addEventListener("change", show);

  const select = (id, fromTable) => {
    selected = id;
    rows.forEach(({ row }) => row.classList.toggle("selected", row.dataset.id === id));
    const { one, row } = rows.find((candidate) => candidate.one.id === id);
    details.hidden = false;
    details.replaceChildren(element("h3", one.name));
    if (one.why) details.append(element("p", one.why));
    for (const [group, entries] of one.details) {
      const list = element("dl");
      for (const [name, value] of entries) {
        const entry = element("div");
        entry.append(element("dt", name), element("dd", value));
        list.append(entry);
      }
      details.append(element("h4", group), list);
    }
    if (!fromTable) row.scrollIntoView({ block: "nearest" });
    if (view) view.signal("selected_id", id).runAsync();
  };

  show();
  if (data.choice !== null) select(data.choice, true);
  if (data.chart !== null) {
    const options = { actions: { export: true, source: false, compiled: false, editor: false }, renderer: "svg" };
    window.vegaEmbed("#chart", data.chart, options).then((result) => {
      view = result.view;
      view.addEventListener("click", (event, item) => {
        if (item && item.datum && item.datum.id) select(item.datum.id, false);
      });
      if (selected !== null) view.signal("selected_id", selected).runAsync();
      document.body.dataset.chart = "ready";
    }).catch((error) => console.error(error));
  }
})();
