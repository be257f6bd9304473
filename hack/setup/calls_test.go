// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package setup_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// calledPrograms returns the programs that Go code of the repository calls or looks for by a name in the code, with a
// place each.
func calledPrograms(repository string) map[string]string {
	GinkgoHelper()
	// The argument that is the name, by function.
	functions := map[string]int{"exec.Command": 0, "exec.CommandContext": 1, "exec.LookPath": 0, "build.Installed": 0}
	called := map[string]string{}
	files := token.NewFileSet()
	Expect(filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		// What is looked for in hack/screenshots is a browser, which only that command needs.
		if entry.IsDir() &&
			(strings.HasPrefix(entry.Name(), ".") && path != repository || entry.Name() == "screenshots") {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			selector, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := selector.X.(*ast.Ident)
			if !ok {
				return true
			}
			index, ok := functions[pkg.Name+"."+selector.Sel.Name]
			if !ok || len(call.Args) <= index {
				return true
			}
			if literal, ok := call.Args[index].(*ast.BasicLit); ok {
				name, err := strconv.Unquote(literal.Value)
				Expect(err).NotTo(HaveOccurred())
				called[name] = files.Position(call.Pos()).String()
			}
			return true
		})
		return nil
	})).To(Succeed())
	return called
}
