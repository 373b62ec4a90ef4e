import { expect, test } from "vitest";
import { withStandby } from "../controls/groups";
import { readAddress } from "../model/address";
import type { Run } from "../types";
import { bottleneckOf } from "./scene";

const runOf = (words: string) => withStandby(readAddress(words).run as Run);

test("the bottleneck is the slowest link that data takes", () => {
  const links = "link.down.rate=50Mbit&link.access.rate=100Mbit&link.up.rate=10Mbit";
  const flow = "flow.home.cc=cubic&flow.home.rtt=20ms";
  expect(bottleneckOf(runOf(`${links}&${flow}&flow.home.path=down,access&flow.home.reverse_path=up`))).toBe("down");
  expect(bottleneckOf(runOf(`${links}&${flow}&flow.home.path=up&flow.home.reverse_path=down`))).toBe("up");
});
