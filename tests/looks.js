/* What a person could not read on a page: a list of complaints, empty where all is well. */
(() => {
  const found = [], wide = document.documentElement.clientWidth;
  const told = (node) => (node.textContent || "").trim().replace(/\s+/g, " ").slice(0, 60);
  const isSeen = (node) => node.checkVisibility({ opacityProperty: true, visibilityProperty: true });

  /* Text is in the window, and not wider than its box. */
  const texts = [...document.querySelectorAll("h1,h2,h3,p,a,button,summary,label,dt,dd,pre,figcaption,th,td,li")];
  for (const node of texts.filter(isSeen)) {
    const box = node.getBoundingClientRect(), style = getComputedStyle(node);
    if (!box.width || !told(node) || node.closest(".scroll, .picture, .q-table__container, .q-tab-panels table")) continue;
    if (box.left < -1 || box.right > wide + 1) found.push(`outside of the window: ${told(node)}`);
    if (node.scrollWidth > node.clientWidth + 1 && style.overflowX === "hidden" && style.display !== "inline") found.push(`cut off: ${told(node)}`);
  }
  if (document.documentElement.scrollWidth > wide) found.push(`the page is ${document.documentElement.scrollWidth} wide, the window ${wide}`);

  /* Charts have something drawn; their words are inside, and do not lie on one another. */
  for (const svg of document.querySelectorAll("figure svg, .picture svg")) {
    if (!isSeen(svg)) continue;
    const room = svg.getBoundingClientRect(), isChart = !!svg.closest("figure");
    const marks = [...svg.querySelectorAll(isChart ? "g.mark-rect path, g.mark-line path, g.mark-area path, g.mark-symbol path" : ".box, .edge path")];
    const drawn = marks.filter((mark) => { const b = mark.getBoundingClientRect(); return b.width + b.height > 1 && !mark.closest("g.role-legend"); });
    if (!drawn.length) found.push(`nothing is drawn in ${told(svg.closest("figure, section") || svg)}`);
    const words = [...svg.querySelectorAll("text")].filter((word) => told(word) && +getComputedStyle(word).opacity > 0);
    const boxes = words.map((word) => [word, word.getBoundingClientRect()]);
    for (const [word, box] of boxes) {
      if (box.left < room.left - 1 || box.right > room.right + 1 || box.top < room.top - 1 || box.bottom > room.bottom + 1) found.push(`a chart cuts off: ${told(word)}`);
      if (isChart && told(word).endsWith("…")) found.push(`a chart shortens: ${told(word)}`);
    }
    for (let i = 0; i < boxes.length && boxes.length < 400 && isChart; i++) for (let j = i + 1; j < boxes.length; j++) {
      const [a, b] = [boxes[i][1], boxes[j][1]];
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left), down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > 2 && down > 4) found.push(`words on one another: ${told(boxes[i][0])} and ${told(boxes[j][0])}`);
    }
  }

  /* Text stands out from what is behind it, by WCAG's 4.5 (3 where it is large). */
  const numbers = (color) => { const [r, g, b, a = 1] = (color.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number); return { r, g, b, a }; };
  const light = ({ r, g, b }) => [r, g, b].map((c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const over = (front, back) => ({ r: front.r * front.a + back.r * (1 - front.a), g: front.g * front.a + back.g * (1 - front.a), b: front.b * front.a + back.b * (1 - front.a), a: 1 });
  const behind = (node) => {
    const layers = [];
    for (let each = node; each; each = each.parentElement) {
      const color = numbers(getComputedStyle(each).backgroundColor);
      if (color.a > 0) layers.push(color);
      if (color.a === 1) break;
    }
    const paper = matchMedia("(prefers-color-scheme: dark)").matches ? { r: 18, g: 18, b: 18, a: 1 } : { r: 255, g: 255, b: 255, a: 1 };
    return layers.reduceRight((back, front) => over(front, back), paper);
  };
  const worded = [...document.querySelectorAll("body *")].filter((node) => !(node instanceof SVGElement) && isSeen(node) && !node.disabled
    && !node.closest("[disabled], .disabled, .cm-editor") && [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim()));
  for (const node of worded) {
    const style = getComputedStyle(node), back = behind(node), front = over(numbers(style.color), back);
    if (["SCRIPT", "STYLE", "OPTION"].includes(node.tagName) || !node.getBoundingClientRect().width) continue;
    const [a, b] = [light(front), light(back)], contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize), isLarge = size >= 24 || (size >= 18.6 && +style.fontWeight >= 600);
    if (contrast < (isLarge ? 3 : 4.5)) found.push(`contrast ${contrast.toFixed(1)}: ${told(node)} (${node.tagName.toLowerCase()}.${node.className})`);
  }

  /* What can be used has a name, and all pictures have words. */
  for (const node of document.querySelectorAll("button, input, a[href], [role=img], iframe, select, textarea")) {
    if (!isSeen(node) || !node.getBoundingClientRect().width) continue;
    const name = node.getAttribute("aria-label") || node.getAttribute("title") || told(node) || (node.labels && [...node.labels].map(told).join("")) || node.getAttribute("aria-labelledby");
    if (!name) found.push(`no name: ${node.outerHTML.slice(0, 120)}`);
  }
  return [...new Set(found)];
})()
