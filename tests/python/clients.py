"""Python's kubernetes client, unmodified, against the server: behind kube-apiserver and directly.

It needs a running instance. OPERATOR_KUBECONFIG and TENANT_KUBECONFIG name its kubeconfigs, MEMBER a member cluster.
"""

import json
import os
import random
import tempfile
import time
import unittest

from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import exceptions

GROUP, VERSION = "business.tkestack.io", "v1"
MEMBER = os.environ.get("MEMBER", "local")
PATIENCE_S = 120


def fresh(prefix):
    return f"{prefix}-{random.randrange(1 << 24):06x}"


def project(name, **labels):
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Project",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "displayName": name,
            "tenantID": "default",
            "clusters": {MEMBER: {"hard": {"pods": "100"}}},
        },
    }


def namespace(owner, name, pods="1"):
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Namespace",
        "metadata": {"name": f"{MEMBER}-{name}", "namespace": owner},
        "spec": {"clusterName": MEMBER, "namespace": name, "tenantID": "default", "hard": {"pods": pods}},
    }


class Client:
    """The tests; a subclass says by which way they ask."""

    variable = ""

    def setUp(self):
        path = os.environ.get(self.variable)
        if not path:
            self.skipTest(f"{self.variable} is not set")
        self.api = config.new_client_from_config(path)
        self.custom = client.CustomObjectsApi(self.api)

    def make(self, **labels):
        body = project(fresh("py"), **labels)
        made = self.custom.create_cluster_custom_object(GROUP, VERSION, "projects", body)
        self.addCleanup(self.drop, made["metadata"]["name"])
        return made

    def drop(self, name):
        try:
            self.custom.delete_cluster_custom_object(GROUP, VERSION, "projects", name)
        except ApiException as error:
            if error.status != 404:
                raise

    def gone(self, get):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            try:
                get()
            except ApiException as error:
                self.assertEqual(error.status, 404, error)
                return
            time.sleep(0.05)
        self.fail("it never went away")

    def rename(self, name, shown):
        """Reads, changes and replaces, again when the controller wrote in between."""
        while True:
            live = self.custom.get_cluster_custom_object(GROUP, VERSION, "projects", name)
            live["spec"]["displayName"] = shown
            try:
                return self.custom.replace_cluster_custom_object(GROUP, VERSION, "projects", name, live)
            except ApiException as error:
                if error.status != 409:
                    raise

    def refused(self, status, reason, call):
        with self.assertRaises(ApiException) as caught:
            call()
        body = json.loads(caught.exception.body)
        self.assertEqual((caught.exception.status, body["kind"], body["reason"]), (status, "Status", reason), body)
        return body

    def test_custom_objects_are_created_read_changed_and_deleted(self):
        mark = fresh("mark")
        made = self.make(mark=mark)
        name = made["metadata"]["name"]
        got = self.custom.get_cluster_custom_object(GROUP, VERSION, "projects", name)
        self.assertEqual(got["metadata"]["uid"], made["metadata"]["uid"])
        listed = self.custom.list_cluster_custom_object(GROUP, VERSION, "projects", label_selector=f"mark={mark}")
        self.assertEqual([item["metadata"]["name"] for item in listed["items"]], [name])
        self.assertEqual(listed["kind"], "ProjectList")
        merged = self.custom.patch_cluster_custom_object(
            GROUP, VERSION, "projects", name, {"spec": {"displayName": "merged"}}
        )
        self.assertEqual((merged["spec"]["displayName"], merged["metadata"]["generation"]), ("merged", 2))
        steps = [{"op": "replace", "path": "/spec/displayName", "value": "patched"}]
        patched = self.custom.patch_cluster_custom_object(
            GROUP, VERSION, "projects", name, steps, _content_type="application/json-patch+json"
        )
        self.assertEqual(patched["spec"]["displayName"], "patched")
        patched["spec"]["displayName"] = "replaced"
        stale = dict(patched, metadata=dict(patched["metadata"], resourceVersion="1"))
        replace = self.custom.replace_cluster_custom_object
        self.refused(409, "Conflict", lambda: replace(GROUP, VERSION, "projects", name, stale))
        self.assertEqual(self.rename(name, "replaced")["spec"]["displayName"], "replaced")
        self.custom.delete_cluster_custom_object(GROUP, VERSION, "projects", name, propagation_policy="Background")
        self.gone(lambda: self.custom.get_cluster_custom_object(GROUP, VERSION, "projects", name))

    def test_namespaces_of_a_project(self):
        owner = self.make()["metadata"]["name"]
        create = self.custom.create_namespaced_custom_object
        made = create(GROUP, VERSION, owner, "namespaces", namespace(owner, fresh("py")))
        listed = self.custom.list_namespaced_custom_object(GROUP, VERSION, owner, "namespaces")
        self.assertEqual([i["metadata"]["uid"] for i in listed["items"]], [made["metadata"]["uid"]])
        body = self.refused(
            403, "Forbidden", lambda: create(GROUP, VERSION, owner, "namespaces", namespace(owner, fresh("py"), "100"))
        )
        self.assertEqual(body["details"]["causes"][0]["reason"], "QuotaExceeded")

    def test_refusals_carry_the_codes(self):
        made = self.make()
        name = made["metadata"]["name"]
        create = lambda body, **more: self.custom.create_cluster_custom_object(GROUP, VERSION, "projects", body, **more)
        get = self.custom.get_cluster_custom_object
        self.refused(409, "AlreadyExists", lambda: create(project(name)))
        self.refused(404, "NotFound", lambda: get(GROUP, VERSION, "projects", fresh("none")))
        nameless = project(fresh("bad"))
        del nameless["spec"]["displayName"]
        body = self.refused(422, "Invalid", lambda: create(nameless))
        self.assertEqual(body["details"]["causes"][0]["field"], "spec.displayName")
        odd = project(fresh("odd"))
        odd["spec"]["colour"] = "red"
        self.refused(400, "BadRequest", lambda: create(odd, field_validation="Strict"))
        dry = create(project(fresh("dry")), dry_run="All")
        self.refused(404, "NotFound", lambda: get(GROUP, VERSION, "projects", dry["metadata"]["name"]))

    def test_watch_tells_what_happens(self):
        mark = fresh("mark")
        listed = self.custom.list_cluster_custom_object(GROUP, VERSION, "projects", label_selector=f"mark={mark}")
        name = self.make(mark=mark)["metadata"]["name"]
        self.custom.patch_cluster_custom_object(GROUP, VERSION, "projects", name, {"spec": {"displayName": "seen"}})
        self.custom.delete_cluster_custom_object(GROUP, VERSION, "projects", name)
        stream = watch.Watch().stream(
            self.custom.list_cluster_custom_object,
            GROUP,
            VERSION,
            "projects",
            label_selector=f"mark={mark}",
            resource_version=listed["metadata"]["resourceVersion"],
            timeout_seconds=PATIENCE_S,
        )
        kinds = []
        for event in stream:
            self.assertEqual(event["object"]["metadata"]["name"], name)
            kinds.append(event["type"])
            if event["type"] == "DELETED":
                break
        self.assertEqual((kinds[0], kinds[-1], set(kinds[1:-1])), ("ADDED", "DELETED", {"MODIFIED"}))

    def test_dynamic_client(self):
        with tempfile.TemporaryDirectory() as directory:
            projects = self.dynamic(directory).resources.get(api_version=f"{GROUP}/{VERSION}", kind="Project")
        name = fresh("dyn")
        made = projects.create(body=project(name))
        self.addCleanup(self.drop, name)
        self.assertEqual(projects.get(name=name).metadata.uid, made.metadata.uid)
        with self.assertRaises(exceptions.ConflictError):
            projects.create(body=project(name))
        with self.assertRaises(exceptions.NotFoundError):
            projects.get(name=fresh("none"))
        merged = projects.patch(
            name=name, body={"spec": {"displayName": "merged"}}, content_type="application/merge-patch+json"
        )
        self.assertEqual(merged.spec.displayName, "merged")
        wanted = {key: value for key, value in project(name).items() if key != "metadata"}
        wanted["metadata"] = {"name": name}
        wanted["spec"]["displayName"] = "applied"
        with self.assertRaises(exceptions.ConflictError):
            projects.server_side_apply(name=name, body=wanted, field_manager="python")
        applied = projects.server_side_apply(name=name, body=wanted, field_manager="python", force_conflicts=True)
        self.assertEqual(applied.spec.displayName, "applied")
        found = projects.get(field_selector=f"metadata.name={name}")
        self.assertEqual([item.metadata.name for item in found.items], [name])
        events = projects.watch(field_selector=f"metadata.name={name}", timeout=PATIENCE_S)
        self.assertEqual(next(iter(events))["object"].metadata.name, name)
        projects.delete(name=name)
        self.gone(lambda: self.custom.get_cluster_custom_object(GROUP, VERSION, "projects", name))

    def dynamic(self, directory):
        return dynamic.DynamicClient(self.api, cache_file=os.path.join(directory, "discovery.json"))


class Aggregated(Client, unittest.TestCase):
    """Through kube-apiserver, as an operator."""

    variable = "OPERATOR_KUBECONFIG"


class Direct(Client, unittest.TestCase):
    """At business-api itself, as a tenant's administrator with a token."""

    variable = "TENANT_KUBECONFIG"


if __name__ == "__main__":
    unittest.main(verbosity=2)
