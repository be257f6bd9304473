// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package native puts programs of this machine's distribution, and others that are not static, into images: with the
// shared libraries and the loader that they need.
package native

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/livecpm/livecpm/hack/images/tarball"
)

// libraryFolders are where Debian has shared libraries, for the processors that it is likely to run on.
var libraryFolders = []string{
	"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
	"/lib64", "/usr/lib64", "/lib", "/usr/lib",
}

// extensions are where the programs of iptables find theirs.
var extensions = []string{"/usr/lib/x86_64-linux-gnu/xtables", "/usr/lib/aarch64-linux-gnu/xtables",
	"/usr/lib/xtables"}

// Program is a program that goes into an image.
type Program struct {
	// Source is where this machine has it, Targets are where the image does.
	Source  string
	Targets []string
}

// OpenVPN is what an image with OpenVPN consists of, besides the users: OpenVPN, what it and its scripts call, and a
// shell.
func OpenVPN() ([]tarball.File, error) {
	more, err := IPTables()
	if err != nil {
		return nil, err
	}
	own, err := Files(
		Program{Source: "/usr/sbin/openvpn", Targets: []string{"/usr/sbin/openvpn"}},
		Program{Source: "/bin/dash", Targets: []string{"/bin/sh"}},
		Program{Source: "/sbin/ip", Targets: []string{"/sbin/ip"}},
	)
	if err != nil {
		return nil, err
	}
	return Merge(own, more), nil
}

// IPTables is what iptables consists of, for both families of addresses and both interfaces of the kernel.
func IPTables() ([]tarball.File, error) {
	programs := []Program{
		{Source: "/usr/sbin/xtables-nft-multi", Targets: []string{"/usr/sbin/iptables-nft", "/usr/sbin/ip6tables-nft"}},
		{Source: "/usr/sbin/xtables-legacy-multi",
			Targets: []string{"/usr/sbin/iptables-legacy", "/usr/sbin/ip6tables-legacy"}},
	}
	var found []string
	for _, folder := range extensions {
		files, err := filepath.Glob(filepath.Join(folder, "*.so"))
		if err != nil {
			return nil, fmt.Errorf("failed to list extensions of iptables: %w", err)
		}
		found = append(found, files...)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("failed to find extensions of iptables in %s", strings.Join(extensions, ", "))
	}
	for _, file := range found {
		programs = append(programs, Program{Source: file, Targets: []string{file}})
	}
	files, err := Files(programs...)
	if err != nil {
		return nil, err
	}
	// The older of the two has its lock there, and does not make the folder.
	return append(files, tarball.File{Path: "/run/xtables.lock", Mode: 0o600}), nil
}

// Merge returns the files of both, each path once.
func Merge(files, more []tarball.File) []tarball.File {
	out := slices.Clone(files)
	for _, file := range more {
		if !slices.ContainsFunc(out, func(has tarball.File) bool { return has.Path == file.Path }) {
			out = append(out, file)
		}
	}
	return out
}

// Below returns the files as they are in a folder of another image.
func Below(folder string, files []tarball.File) []tarball.File {
	out := slices.Clone(files)
	for i := range out {
		out[i].Path = filepath.Join(folder, out[i].Path)
	}
	return out
}

// Files returns the programs and all that they are linked with.
func Files(programs ...Program) ([]tarball.File, error) {
	needed := map[string]string{}
	var out []tarball.File
	for _, program := range programs {
		if err := collect(program.Source, needed); err != nil {
			return nil, err
		}
		for _, target := range program.Targets {
			out = append(out, tarball.File{Path: target, Source: program.Source})
		}
	}
	for path, source := range needed {
		// One of the programs may be a library itself.
		if !slices.ContainsFunc(out, func(file tarball.File) bool { return file.Path == path }) {
			out = append(out, tarball.File{Path: path, Source: source})
		}
	}
	slices.SortFunc(out, func(a, b tarball.File) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// collect adds what the file needs, by the path in the image.
func collect(file string, needed map[string]string) error {
	program, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("failed to read program %s: %w", file, err)
	}
	defer func() { _ = program.Close() }()
	if loader := interpreter(program); loader != "" {
		needed[loader] = loader
	}
	libraries, err := program.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("failed to read what %s is linked with: %w", file, err)
	}
	for _, library := range libraries {
		path, err := findLibrary(library)
		if err != nil {
			return fmt.Errorf("failed to find what %s is linked with: %w", file, err)
		}
		if _, known := needed[path]; known {
			continue
		}
		needed[path] = path
		if err := collect(path, needed); err != nil {
			return err
		}
	}
	return nil
}

func interpreter(program *elf.File) string {
	for _, part := range program.Progs {
		if part.Type != elf.PT_INTERP {
			continue
		}
		content := make([]byte, part.Filesz)
		if _, err := part.ReadAt(content, 0); err == nil {
			return strings.TrimRight(string(content), "\x00")
		}
	}
	return ""
}

func findLibrary(name string) (string, error) {
	for _, folder := range libraryFolders {
		path := filepath.Join(folder, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		} else if !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("failed to look for library: %w", err)
		}
	}
	return "", fmt.Errorf("no library %s in %s", name, strings.Join(libraryFolders, ", "))
}

// Unpack writes files of an image below a folder, for programs that start them there.
func Unpack(folder string, files []tarball.File) error {
	for _, file := range files {
		content := file.Data
		if file.Source != "" {
			var err error
			if content, err = os.ReadFile(file.Source); err != nil {
				return fmt.Errorf("failed to read file of image: %w", err)
			}
		}
		mode := os.FileMode(0o755)
		if file.Mode != 0 {
			mode = os.FileMode(file.Mode) // #nosec G115 -- It is a permission.
		}
		target := filepath.Join(folder, file.Path)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return fmt.Errorf("failed to make folder: %w", err)
		}
		if err := os.WriteFile(target, content, mode); err != nil {
			return fmt.Errorf("failed to write file of image: %w", err)
		}
	}
	return nil
}
