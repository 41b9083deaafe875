"use strict";
// Helpers of the report. Names come from users' data: they are only ever set as text.
const report = JSON.parse(document.getElementById("report-data").textContent);

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    } else {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const wholeNumbers = new Intl.NumberFormat("en");

function whole(number) {
  return wholeNumbers.format(number);
}

function percent(share) {
  const value = 100 * share;
  if (value > 0 && value < 0.01) return "under 0.01 %";
  return value.toFixed(value >= 10 || value === 0 ? 0 : value >= 1 ? 1 : 2) + " %";
}

function thousandths(value) {
  if (value <= 0) return "<0.001";
  if (value >= 1000) return ">0.999";
  return (value / 1000).toFixed(3);
}

function bar(value) {
  const inner = make("span", {});
  inner.style.width = Math.max(0.5, value / 10) + "%";
  return make("span", { class: "bar", "aria-hidden": "true" }, inner);
}
