// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/proof/inventory"
)

func TestInventory(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test Inventory Suite")
}

var _ = Describe("Diff", func() {
	before := []inventory.Object{
		{Resource: "pods", Namespace: "ns", Name: "etcd-main-0", UID: "1"},
		{Resource: "etcds", Namespace: "ns", Name: "etcd-main", UID: "2", Generation: 3},
		{Resource: "clusters", Name: "ns", UID: "3", Generation: 1},
		{Resource: "backupentries", Name: "ns--1", UID: "4"},
	}
	exempt := inventory.Exempt{Replaced: []string{"backupentries "}, Changed: []string{"clusters "}}

	It("should find nothing between equal moments", func() {
		Expect(inventory.Diff(before, before, exempt)).To(BeEmpty())
	})

	It("should name what is gone, new, replaced and changed", func() {
		after := []inventory.Object{
			{Resource: "pods", Namespace: "ns", Name: "etcd-main-0", UID: "9"},
			{Resource: "etcds", Namespace: "ns", Name: "etcd-main", UID: "2", Generation: 4},
			{Resource: "secrets", Namespace: "ns", Name: "left", UID: "5"},
			{Resource: "backupentries", Name: "ns--1", UID: "8"},
		}
		Expect(inventory.Diff(before, after, exempt)).To(Equal([]string{
			"changed: etcds ns/etcd-main (generation 4, was 3)",
			"gone: clusters ns",
			"new: secrets ns/left",
			"replaced: pods ns/etcd-main-0",
		}))
	})

	It("should let exempt resources be others or change", func() {
		after := append([]inventory.Object{}, before...)
		after[2].Generation = 7
		after[3].UID = "8"
		Expect(inventory.Diff(before, after, exempt)).To(BeEmpty())
		Expect(inventory.Diff(before, after, inventory.Exempt{})).To(HaveLen(2))
	})
})

var _ = Describe("Names", func() {
	It("should name every object once", func() {
		Expect(inventory.Names([]inventory.Object{{Resource: "pods", Namespace: "a", Name: "b", UID: "1"},
			{Resource: "pods", Namespace: "a", Name: "b", UID: "2"}, {Resource: "clusters", Name: "c"}})).
			To(Equal([]string{"pods a/b", "clusters c"}))
	})
})
