/** Links to pages of objects. */

/** The page of a project, or of a namespace in it. */
export function linkOf(name: string, project?: string): string {
  return project === undefined ? `/projects/${name}` : `/projects/${project}/namespaces/${name}`;
}
