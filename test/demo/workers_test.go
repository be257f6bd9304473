// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package demo_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/inventory"
	"github.com/livecpm/livecpm/test/demo"
	"github.com/livecpm/livecpm/test/extension/stateful"
)

var _ = Describe("WorkersPicture", func() {
	picture := func() demo.WorkersPicture {
		return demo.WorkersPicture{
			Machines: map[string]string{"one-a": "machine-one-a"}, MachineUIDs: map[string]string{"machine-one-a": "1"},
			NodeUIDs: map[string]string{"machine-one-a": "2"}, States: map[string]string{"Network workers": "id"},
		}
	}

	It("should find nothing where nothing has changed", func() {
		Expect(picture().Compare(picture())).To(BeEmpty())
	})

	It("should tell everything that has", func() {
		after := picture()
		after.Machines = map[string]string{"one-b": "machine-one-b"}
		after.MachineUIDs["machine-one-a"] = "9"
		after.NodeUIDs["machine-one-a"] = "8"
		after.States["Network workers"] = "<nil>"
		Expect(picture().Compare(after)).To(HaveExactElements(
			`node of machine one-a: "machine-one-a" -> ""`,
			`node of machine one-b: "" -> "machine-one-b"`,
			`UID of machine machine-one-a: "1" -> "9"`,
			`UID of node machine-one-a: "2" -> "8"`,
			`state of Network workers: "id" -> "<nil>"`,
		))
	})
})

var _ = Describe("Misdone", func() {
	begin := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	operation := func(seed, kind string, from, to int) stateful.Operation {
		return stateful.Operation{
			Seed: seed, Kind: "Network", Name: "workers", Operation: kind,
			Begin: begin.Add(time.Duration(from) * time.Second), End: begin.Add(time.Duration(to) * time.Second),
		}
	}

	It("should be content when one seed follows the other", func() {
		Expect(demo.Misdone([]stateful.Operation{operation("a", "Migrate", 0, 1), operation("a", "Delete", 0, 2), operation("b", "Restore", 2, 3)})).To(BeEmpty())
	})

	It("should find two seeds at the same time, and failures", func() {
		failed := operation("b", "Restore", 1, 3)
		failed.Error = "no state"
		Expect(demo.Misdone([]stateful.Operation{operation("a", "Migrate", 0, 2), failed})).To(HaveExactElements(
			"b Restore of Network workers: no state",
			"a Migrate of Network workers and b Restore of Network workers at the same time",
		))
		other := operation("b", "Restore", 1, 3)
		other.Name = "another"
		Expect(demo.Misdone([]stateful.Operation{operation("a", "Migrate", 0, 2), other})).To(BeEmpty())
	})
})

var _ = Describe("InCloud", func() {
	DescribeTable("should tell a shoot's machines from what it has in a seed", func(object inventory.Object, expected bool) {
		Expect(demo.InCloud(object, "shoot--demo--workers")).To(Equal(expected))
	},
		Entry("a machine", inventory.Object{Resource: "pods", Namespace: "infra-shoot--demo--workers", Name: "machine-shoot--demo--workers-one-z1-a"}, true),
		Entry("their namespace", inventory.Object{Resource: "namespaces", Name: "infra-shoot--demo--workers"}, true),
		Entry("their addresses", inventory.Object{Resource: "ippools", Name: "shoot-machine-pods-shoot--demo--workers-ipv4"}, true),
		Entry("the shoot's namespace", inventory.Object{Resource: "namespaces", Name: "shoot--demo--workers"}, false),
		Entry("a Machine", inventory.Object{Resource: "machines", Namespace: "shoot--demo--workers", Name: "a"}, false),
		Entry("something of the cluster", inventory.Object{Resource: "clusterrolebindings", Name: "x-shoot--demo--workers"}, false),
		Entry("another shoot's", inventory.Object{Resource: "ippools", Name: "shoot-machine-pods-shoot--demo--workers2-ipv4"}, false),
	)
})
