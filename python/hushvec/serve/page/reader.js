// Points of a picture that can be read: by pointing at them, or by keyboard from one stop of the TAB key.

import { el, show } from "./dom.js";

const REACH = 18; // pixels around a point that count as pointing at it

export class Reader {
  /**
   * @param place the element that shows the picture.
   * @param picture an SVG of the same size.
   * @param groups lists of points {x, y, label, shape}; arrows move within a group and between groups.
   * @param at the point that the TAB key reaches: group, number.
   */
  constructor(place, picture, groups, at = [0, 0]) {
    Object.assign(this, { groups, at });
    this.tip = el("div", { class: "tip", "aria-hidden": "true", hidden: true });
    place.replaceChildren(picture, this.tip);
    picture.addEventListener("pointermove", (event) => this.pointAt(event));
    picture.addEventListener("pointerdown", (event) => this.pointAt(event));
    picture.addEventListener("pointerleave", () => this.unmark());
    picture.addEventListener("keydown", (event) => this.move(event));
    picture.addEventListener("focusin", (event) => this.tell(groups.flat().find(({ shape }) => shape === event.target)));
    picture.addEventListener("focusout", () => this.unmark());
    this.current.setAttribute("tabindex", 0);
  }

  get current() {
    return this.groups[this.at[0]][this.at[1]].shape;
  }

  pointAt(event) {
    const box = event.currentTarget.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    let best = null, closest = REACH ** 2;
    for (const one of this.groups.flat()) {
      const distance = (one.x - x) ** 2 + (one.y - y) ** 2;
      if (distance < closest) [best, closest] = [one, distance];
    }
    if (best) this.tell(best);
    else this.unmark();
  }

  tell(one) {
    this.unmark();
    if (!one) return;
    this.marked = one.shape;
    one.shape.classList.add("is-marked");
    const { tip } = this;
    tip.textContent = one.label;
    show(tip);
    const room = tip.parentElement.clientWidth;
    tip.style.left = `${Math.max(0, Math.min(room - tip.offsetWidth, one.x - tip.offsetWidth / 2))}px`;
    const above = one.y - tip.offsetHeight - 14;
    tip.style.top = `${above >= 0 ? above : one.y + 14}px`;
  }

  unmark() {
    show(this.tip, false);
    this.marked?.classList.remove("is-marked");
  }

  move(event) {
    const along = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const across = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (along === undefined && across === undefined) return;
    event.preventDefault();
    this.current.setAttribute("tabindex", -1);
    const [group, number] = this.at;
    this.at = along ? [group, cyclic(number + along, this.groups[group])] : this.across(cyclic(group + across, this.groups), number);
    this.current.setAttribute("tabindex", 0);
    this.current.focus();
  }

  /** The same number in another group if the groups are as long, as lines over one axis are; else its first point. */
  across(group, number) {
    return [group, this.groups[group].length === this.groups[this.at[0]].length ? number : 0];
  }
}

function cyclic(number, { length }) {
  return (number + length) % length;
}
