"use strict";
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const palettes = {
    light: ["#1d5fd6", "#c2570c", "#0a7d5a", "#b8256f", "#6d3fd1", "#0b7285", "#8a6d00", "#b42318"],
    dark: ["#7ab2ff", "#fb9f5a", "#4fd3a5", "#f58bbf", "#b79cff", "#5cd0e6", "#e3c34f", "#ff9d8f"],
  };
  const ramp = ["#e3edfc", "#a9c8f7", "#6da1ee", "#3575dc", "#17479e"];
  const palette = () => palettes[dark.matches ? "dark" : "light"];
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function theme() {
    const [ink, soft, rule] = ["--ink", "--soft", "--rule"].map(css);
    return {
      background: "transparent",
      font: "system-ui, -apple-system, 'Segoe UI', sans-serif",
      view: { stroke: null },
      range: { category: palette(), ramp, heatmap: ramp, ordinal: ramp },
      mark: { color: palette()[0] }, bar: { color: palette()[0] }, area: { color: palette()[0] },
      rect: {}, text: { color: ink, fontSize: 11.5 }, rule: { color: soft },
      axis: { domainColor: rule, gridColor: rule, tickColor: rule, labelColor: soft, titleColor: soft,
        labelFontSize: 11.5, titleFontSize: 11.5, titleFontWeight: "normal", titlePadding: 8, labelPadding: 5 },
      axisX: { grid: false },
      title: { color: ink, fontSize: 12.5, fontWeight: 600, anchor: "start", offset: 8 },
      legend: { labelColor: ink, titleColor: soft, labelFontSize: 12, symbolSize: 90 },
    };
  }

  /* The charts are made for one width; every panel of one takes the same room on the left, so that times align. */
  function fit(node, width, isNarrow) {
    if (Array.isArray(node)) return node.map((each) => fit(each, width, isNarrow));
    if (!node || typeof node !== "object") return node;
    const out = {};
    for (const [key, value] of Object.entries(node)) {
      if (key === "datasets" || key === "data") out[key] = value;
      else if (key === "width" && typeof value === "number") out[key] = width;
      else if (key === "tickCount" && isNarrow) out[key] = Math.min(value, 4);
      else if (key === "columns" && isNarrow) out[key] = 2;
      else if (key === "labelLimit" && isNarrow) out[key] = Math.min(value, 112);
      else out[key] = fit(value, width, isNarrow);
    }
    if (out.encoding && out.encoding.y && out.encoding.y.type === "quantitative" && out.encoding.y.axis)
      out.encoding.y.axis = { ...out.encoding.y.axis, minExtent: 44, maxExtent: 44 };
    if (out.mark && out.mark.type === "text" && out.encoding.x.sort && width / out.encoding.x.sort.length < 38) out.mark = { ...out.mark, opacity: 0 };
    if (out.mark && out.mark.type === "bar" && out.mark.size) out.mark = { ...out.mark, size: Math.max(1, out.mark.size * width / 680) };
    return out;
  }

  /* One after the other: charts that are made at once may be left half drawn. */
  let queue = Promise.resolve();
  const draw = (host) => (queue = queue.then(() => drawNow(host)).catch((error) => { host.textContent = String(error); }));
  const views = new Map();
  async function drawNow(host) {
    const spec = JSON.parse(document.getElementById(host.dataset.chart).textContent);
    const room = host.clientWidth;
    const isNarrow = room < 480, config = theme();
    let width = Math.max(120, room - 62), made, svg;
    for (let attempt = 0; attempt < 2; attempt++) {  // labels on the left are as wide as they are: measure, and fit
      const fitted = { ...fit(spec, width, isNarrow), config, padding: { left: 2, right: 14, top: 4, bottom: 4 } };
      if (made) made.finalize();
      made = await vegaEmbed(host, fitted, { actions: false, renderer: "svg", tooltip: { theme: "custom" } });
      svg = host.querySelector("svg");
      const over = Math.ceil(+svg.getAttribute("width") - room);
      if (Math.abs(over) < 4) break;
      width = Math.max(120, width - over);
    }
    svg.setAttribute("aria-hidden", "true");
    views.set(host, { view: made.view, room });
    pick(host);
  }

  /* -------- groups to pick */
  function chipsOf(host) { return [...host.closest("figure").querySelectorAll(".chip")]; }
  function pick(host) {
    const chips = chipsOf(host), made = views.get(host);
    for (const dot of host.closest("figure").querySelectorAll("[data-color]"))
      dot.style.background = palette()[dot.dataset.color % palette().length];
    if (!chips.length || !made) return;
    const on = chips.filter((chip) => chip.getAttribute("aria-pressed") === "true").map((chip) => chip.dataset.group);
    made.view.signal("picked", on.length === chips.length ? [] : on.length ? on : ["\u0000"]).runAsync();
  }
  for (const host of document.querySelectorAll("[data-chart]"))
    for (const chip of chipsOf(host)) chip.addEventListener("click", () => {
      const chips = chipsOf(host), isOn = (each) => each.getAttribute("aria-pressed") === "true";
      if (chips.every(isOn)) for (const each of chips) each.setAttribute("aria-pressed", String(each === chip));
      else chip.setAttribute("aria-pressed", String(!isOn(chip)));
      if (!chips.some(isOn)) for (const each of chips) each.setAttribute("aria-pressed", "true");
      pick(host);
    });

  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) { seen.unobserve(entry.target); draw(entry.target); }
  }, { rootMargin: "600px" });
  for (const host of document.querySelectorAll("[data-chart]")) seen.observe(host);
  const again = () => { for (const [host] of views) draw(host); };
  dark.addEventListener("change", again);
  let timer;
  addEventListener("resize", () => {
    clearTimeout(timer);
    timer = setTimeout(() => { for (const [host, made] of views) if (host.clientWidth !== made.room) draw(host); }, 150);
  });

  /* -------- tables */
  const PAGE = 200;
  function tableOf(table) {
    const key = table.dataset.table, data = JSON.parse(document.getElementById(key).textContent);
    const box = table.closest("details"), input = box.querySelector("input"), count = box.querySelector(".count");
    const isNumber = data.columns.map((_, i) => data.rows.some((row) => typeof row[i] === "number"));
    let by = -1, way = 1;
    const text = (value) => value === null ? "" : typeof value === "number"
      ? (Number.isInteger(value) && Math.abs(value) < 1e15 ? value.toLocaleString("en") : String(+value.toPrecision(6))) : String(value);
    const head = table.createTHead().insertRow(), body = table.createTBody();
    data.columns.forEach((name, i) => {
      const th = document.createElement("th"), button = document.createElement("button");
      th.scope = "col"; th.className = isNumber[i] ? "number" : "";
      button.type = "button"; button.textContent = name;
      button.addEventListener("click", () => { way = by === i ? -way : 1; by = i; show(); });
      th.append(button); head.append(th);
    });
    function kept() {
      const asked = input.value.trim().toLowerCase(), [column, ...rest] = asked.split(":");
      const at = rest.length ? data.columns.findIndex((name) => name.toLowerCase() === column.trim()) : -1;
      const wanted = at >= 0 ? rest.join(":").trim() : asked;
      const fits = (row) => !wanted || (at >= 0 ? [row[at]] : row).some((cell) => text(cell).toLowerCase().includes(wanted) ||
        (cell !== null && String(cell).toLowerCase().includes(wanted)));
      return data.rows.filter(fits);
    }
    function compare(a, b) {
      const x = a[by], y = b[by];
      if (x === null || y === null) return (x === null) - (y === null);
      return way * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true }));
    }
    function show() {
      const rows = kept();
      if (by >= 0) rows.sort(compare);
      [...head.children].forEach((th, i) => i === by ? th.setAttribute("aria-sort", way > 0 ? "ascending" : "descending") : th.removeAttribute("aria-sort"));
      body.replaceChildren(...rows.slice(0, PAGE).map((row) => {
        const tr = document.createElement("tr");
        row.forEach((cell, i) => { const td = tr.insertCell(); td.textContent = text(cell); if (isNumber[i]) td.className = "number"; });
        return tr;
      }));
      count.textContent = rows.length > PAGE ? `The first ${PAGE} of ${rows.length.toLocaleString("en")} rows.` : `${rows.length.toLocaleString("en")} rows.`;
    }
    input.addEventListener("input", show);
    show();
  }
  for (const table of document.querySelectorAll("[data-table]"))
    table.closest("details").addEventListener("toggle", () => tableOf(table), { once: true });
})();
