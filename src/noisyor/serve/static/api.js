"use strict";
// The OpenAPI document as a page.
(async function () {
  const found = await (await fetch("/openapi.json")).json();

  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
    element.append(...children.filter(Boolean));
    return element;
  }

  function resolve(schema) {
    if (!schema.$ref) return schema;
    const [group, name] = schema.$ref.split("/").slice(-2);
    return found.components[group][name];
  }

  function kind(schema) {
    if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
    if (schema.oneOf) return schema.oneOf.map(kind).join(" | ");
    if (schema.type === "array") return "list of " + kind(schema.items);
    return [].concat(schema.type || "any").join(" | ");
  }

  // One line for each field; those of objects inside are named with dots.
  function fields(schema, before) {
    schema = resolve(schema);
    const lines = [];
    for (const [name, inner] of Object.entries(schema.properties || {})) {
      const list = inner.type === "array" && resolve(inner.items).properties;
      const path = before + name + (list ? "[]" : "");
      lines.push(make("tr", {}, make("td", {}, make("code", {}, path)), make("td", {}, list ? "list" : kind(inner)),
        make("td", { class: "soft" }, [inner.description, inner.default === undefined ? "" : "Default " + inner.default + "."]
          .filter(Boolean).join(" "))));
      lines.push(...fields(list ? inner.items : inner, path + "."));
    }
    return lines;
  }

  function table(title, lines) {
    if (!lines.length) return null;
    return make("div", { class: "scroll" }, make("h3", {}, title), make("table", { class: "fields" },
      make("thead", {}, make("tr", {}, ...["field", "type", "meaning"].map((text) => make("th", { scope: "col" }, text)))),
      make("tbody", {}, ...lines)));
  }

  document.getElementById("about").textContent = found.info.description;
  for (const [path, verbs] of Object.entries(found.paths)) {
    for (const [verb, operation] of Object.entries(verbs)) {
      const media = operation.requestBody && operation.requestBody.content["application/json"];
      const parameters = { properties: Object.fromEntries((operation.parameters || []).map((one) =>
        [one.name, { ...one.schema, description: one.description }])) };
      const command = media
        ? "curl -H 'Content-Type: application/json' -d '" + JSON.stringify(media.example) + "' " + location.origin + path
        : "curl " + location.origin + path;
      const errors = Object.entries(operation.responses).filter(([code]) => code !== "200")
        .map(([code, one]) => code + ": " + resolve(one).description);
      document.getElementById("routes").append(make("section", { class: "card route" },
        make("h2", {}, make("span", { class: "verb" }, verb.toUpperCase()), make("code", {}, path)),
        make("p", {}, operation.summary + "."),
        make("pre", { tabindex: "0" }, command),
        table("Parameters", fields(parameters, "")),
        media ? table("Body", fields(media.schema, "")) : null,
        table("Answer", fields(operation.responses["200"].content["application/json"].schema, "")),
        errors.length ? make("p", { class: "soft small" }, "Errors: " + errors.join("; ") + ".") : null));
    }
  }
})();
