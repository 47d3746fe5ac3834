// SPDX-License-Identifier: MIT
// Searches the index of the site, first the names, then the summaries. "/" moves to the field, Enter opens the first result.
"use strict";

/* Rates an entry of the index; smaller is better. Returns -1 if a word is neither in the name nor in the summary. */
function rank([name, , , summary], words) {
	const low = name.toLowerCase(), all = low + " " + summary.toLowerCase();
	let sum = name.length / 100;
	for (const word of words) {
		const at = low.indexOf(word);
		if (!all.includes(word))
			return -1;
		sum += low === word ? 0 : at === 0 ? 1 : at > 0 && /[_ (-]/.test(low[at - 1]) ? 2 : at > 0 ? 3 : 6;
	}
	return sum;
}

function find(text) {
	const words = text.toLowerCase().replace(/[()]/g, " ").split(/\s+/).filter(Boolean);
	return words.length ? INDEX.map((entry) => [rank(entry, words), entry]).filter(([r]) => r >= 0)
		.sort((a, b) => a[0] - b[0]).slice(0, 40).map(([, entry]) => entry) : [];
}

function show(field, list) {
	list.replaceChildren(...find(field.value).map(([name, place, kind, summary]) => {
		const item = document.createElement("li"), link = item.appendChild(document.createElement("a"));
		link.href = document.body.dataset.root + place;
		link.appendChild(document.createElement("b")).textContent = name;
		link.appendChild(document.createElement("small")).textContent = summary ? kind + " · " + summary : kind;
		return item;
	}));
}

if (typeof document !== "undefined") {
	const field = document.getElementById("search"), list = document.getElementById("found");
	field.addEventListener("input", () => show(field, list));
	field.addEventListener("keydown", (event) => {
		if (event.key === "Enter" && list.firstChild)
			location.href = list.querySelector("a").href;
		if (event.key === "Escape") {
			field.value = "";
			list.replaceChildren();
		}
	});
	document.addEventListener("keydown", (event) => {
		if (event.key === "/" && document.activeElement !== field) {
			event.preventDefault();
			field.focus();
		}
	});
	document.addEventListener("click", (event) => list.contains(event.target) || list.replaceChildren());
}
