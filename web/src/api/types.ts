/** Our kinds, from the server's OpenAPI document. */

import type { Resource } from "../live/feed";
import type { components } from "./schema";

type Schemas = components["schemas"];
type Stored<Kind extends keyof Schemas> = Omit<Schemas[Kind], "metadata"> & Resource;

export type Project = Stored<"io.tkestack.business.v1.Project">;
export type Namespace = Stored<"io.tkestack.business.v1.Namespace">;
export type Tenant = Stored<"io.tkestack.business.v1.Tenant">;
export type MemberCluster = Stored<"io.tkestack.business.v1.MemberCluster">;

export type ImageNamespace = Stored<"io.tkestack.business.v1.ImageNamespace">;
export type ChartGroup = Stored<"io.tkestack.business.v1.ChartGroup">;
export type Platform = Stored<"io.tkestack.business.v1.Platform">;

export interface Condition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
  lastTransitionTime?: string;
}
