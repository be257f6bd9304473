// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package document_test

import (
	"bytes"
	"encoding/json"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/cli/document"
)

type migration struct {
	State string `json:"state"`
	Size  int64  `json:"size,omitempty"`
}

var _ = Describe("Document", func() {
	var (
		one = document.Document{Kind: document.Migration, Value: migration{"Paused", 4000000},
			Names: []string{"shoot/a"}}
		many = document.Document{Kind: document.MigrationList, Value: []migration{{State: "Paused"}, {State: "Held"}},
			Names: []string{"shoot/a", "shoot/b"}}
	)
	write := func(format string, documents ...document.Document) string {
		GinkgoHelper()
		printer, err := document.NewPrinter(format, document.Table)
		Expect(err).NotTo(HaveOccurred())
		var out bytes.Buffer
		for _, each := range documents {
			if len(documents) > 1 {
				Expect(printer.Stream(&out, each)).To(Succeed())
				continue
			}
			Expect(printer.Print(&out, each)).To(Succeed())
		}
		return out.String()
	}

	DescribeTable("should be written in a format", func(format, expected string, which func() document.Document) {
		Expect(write(format, which())).To(Equal(expected))
	},
		Entry("JSON", "json", `{
  "apiVersion": "cli.livecpm.gardener.cloud/v1alpha1",
  "kind": "Migration",
  "state": "Paused",
  "size": 4000000
}
`, func() document.Document { return one }),
		Entry("YAML", "yaml",
			"apiVersion: cli.livecpm.gardener.cloud/v1alpha1\nkind: Migration\nsize: 4000000\nstate: Paused\n",
			func() document.Document { return one }),
		Entry("names", "name", "shoot/a\nshoot/b\n", func() document.Document { return many }),
		Entry("JSONPath", "jsonpath={.kind} {.state}", "Migration Paused\n", func() document.Document { return one }),
		Entry("JSONPath of a list", "jsonpath={.items[*].state}", "Paused Held\n",
			func() document.Document { return many }),
		Entry("JSONPath without braces", "jsonpath=.size", "4000000\n", func() document.Document { return one }),
		Entry("JSONPath of a field that is not there", "jsonpath={.nothing}", "\n",
			func() document.Document { return one }),
	)

	It("should have the elements of a list in items, also if there are none", func() {
		for _, none := range []any{[]migration{}, []migration(nil)} {
			data, err := json.Marshal(document.Document{Kind: document.MigrationList, Value: none})
			Expect(err).NotTo(HaveOccurred())
			Expect(data).To(MatchJSON(
				`{"apiVersion":"cli.livecpm.gardener.cloud/v1alpha1","kind":"MigrationList","items":[]}`))
		}
		data, err := json.Marshal(document.Document{Kind: document.Change, Value: struct{}{}})
		Expect(err).NotTo(HaveOccurred())
		Expect(data).To(MatchJSON(`{"apiVersion":"cli.livecpm.gardener.cloud/v1alpha1","kind":"Change"}`))
	})

	It("should be one line or one part of a stream", func() {
		other := document.Document{Kind: document.Migration, Value: migration{State: "Held"}}
		Expect(write("json", one, other)).To(Equal(
			`{"apiVersion":"cli.livecpm.gardener.cloud/v1alpha1","kind":"Migration","state":"Paused","size":4000000}` +
				"\n" + `{"apiVersion":"cli.livecpm.gardener.cloud/v1alpha1","kind":"Migration","state":"Held"}` + "\n"))
		Expect(write("yaml", one, other)).To(Equal(
			"apiVersion: cli.livecpm.gardener.cloud/v1alpha1\nkind: Migration\nsize: 4000000\nstate: Paused\n---\n" +
				"apiVersion: cli.livecpm.gardener.cloud/v1alpha1\nkind: Migration\nstate: Held\n"))
	})

	It("should not be made of what has no fields", func() {
		for _, value := range []any{42, math.Inf(1), map[string]string{"kind": "other"}} {
			_, err := json.Marshal(document.Document{Kind: document.Plan, Value: value})
			Expect(err).To(HaveOccurred())
		}
	})

	It("should leave formats for people to others, and refuse what is no format", func() {
		printer, err := document.NewPrinter("table", "table", "wide")
		Expect(err).NotTo(HaveOccurred())
		Expect(printer).To(BeNil())
		_, err = document.NewPrinter("xml", "table", "wide")
		Expect(err).To(MatchError(`--output is "xml"; it can be table, wide, json, yaml, name, jsonpath=`))
		for _, template := range []string{"", "{.state", "{.a[}"} {
			_, err = document.NewPrinter("jsonpath="+template, "table")
			Expect(err).To(MatchError(ContainSubstring("no JSONPath")), template)
		}
	})
})
