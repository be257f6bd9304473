// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package graphs writes flow graphs down, so that golden files show which tasks a step has and what each waits for. A
// graph that is put together in another way has to come to the same text.
package graphs

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/gardener/gardener/pkg/utils/flow"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// Text returns a paragraph for each task of the graph that is not skipped, by name, with the tasks that it waits
// for. A skipped task passes on what it waits for, and what another one waits for already is left out.
func Text(graph *flow.Graph) string {
	tasks := read(graph)
	before := map[string]map[string]bool{}
	for name := range tasks {
		before[name] = ancestors(tasks, name)
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(tasks)) {
		if tasks[name].skip {
			continue
		}
		out.WriteString(name + "\n")
		for _, dependency := range slices.Sorted(maps.Keys(before[name])) {
			implied := false
			for other := range before[name] {
				implied = implied || before[other][dependency]
			}
			if !implied {
				out.WriteString("  after " + dependency + "\n")
			}
		}
	}
	return out.String()
}

// Compare compares the text of each graph with the file of its name in the folder. With UPDATE_GOLDEN=1 it writes them.
func Compare(folder string, graphs map[string]*flow.Graph) {
	GinkgoHelper()
	var names []string
	for name, graph := range graphs {
		file := strings.ReplaceAll(name, " ", "-") + ".txt"
		names = append(names, file)
		actual, path := Text(graph), filepath.Join(folder, file)
		if os.Getenv("UPDATE_GOLDEN") != "" {
			Expect(os.MkdirAll(folder, 0o755)).To(Succeed())
			Expect(os.WriteFile(path, []byte(actual), 0o600)).To(Succeed())
		}
		expected, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(actual).To(Equal(string(expected)), "%s: if that is wanted, write it with UPDATE_GOLDEN=1", path)
	}
	entries, err := os.ReadDir(folder)
	Expect(err).NotTo(HaveOccurred())
	for _, entry := range entries {
		Expect(names).To(ContainElement(entry.Name()), "no graph of that name")
	}
}

type task struct {
	skip         bool
	dependencies []string
}

// read reads the tasks of a graph, which keeps them to itself.
func read(graph *flow.Graph) map[string]task {
	GinkgoHelper()
	field := reflect.ValueOf(graph).Elem().FieldByName("tasks")
	Expect(field.IsValid()).To(BeTrue(), "flow.Graph has changed")
	out := map[string]task{}
	for _, id := range field.MapKeys() {
		spec := field.MapIndex(id).Elem()
		read := task{skip: spec.FieldByName("Skip").Bool()}
		for _, dependency := range spec.FieldByName("Dependencies").MapKeys() {
			read.dependencies = append(read.dependencies, dependency.String())
		}
		out[id.String()] = read
	}
	return out
}

// ancestors are the tasks that the task waits for, directly or not, without those that are skipped.
func ancestors(tasks map[string]task, name string) map[string]bool {
	out := map[string]bool{}
	for _, dependency := range tasks[name].dependencies {
		if !tasks[dependency].skip {
			out[dependency] = true
		}
		maps.Copy(out, ancestors(tasks, dependency))
	}
	return out
}
