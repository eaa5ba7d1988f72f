import { expect, it } from "vitest";
import { gradeOf, problemsOf } from "./conditions";

const one = (type: string, status: string, reason = `${type}${status}`) => ({ type, status, reason, message: "" });

it("takes what cannot be said for wrong as well as what does not hold, and the unusual the other way round", () => {
  expect(["True", "False", "Unknown"].map((status) => gradeOf(one("Reachable", status)))).toEqual(["good", "urgent", "noted"]);
  expect(["True", "False", "Unknown"].map((status) => gradeOf(one("Replaced", status)))).toEqual(["noted", "good", "good"]);
});

it("names what is wrong of an object, the urgent first, and nothing twice", () => {
  const conditions = [
    one("Ready", "Unknown"), one("Reachable", "False", "NoAnswer"), one("Bounded", "True"), one("Registered", "False", "NoAnswer"), one("OtherAccess", "True"),
  ];
  expect(problemsOf({ status: { conditions } }).map(({ type }) => type)).toEqual(["Reachable", "Ready", "OtherAccess"]);
  expect(problemsOf({})).toEqual([]);
});
