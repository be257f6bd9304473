// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package release knows which release of livecpm a program is of.
package release

import "runtime/debug"

// version is set by the linker (-X), see the Makefile and hack/images.
var version string

// Version returns the release that this program is of, as v0.1.0; for a program that is of none, the commit that it was
// built from, as devel-0123456789ab, or devel if not even that is known.
func Version() string {
	if version != "" {
		return version
	}
	info, _ := debug.ReadBuildInfo()
	return Of(info)
}

// Of returns what Version does for a program that the linker has given no version. The information may be nil.
func Of(info *debug.BuildInfo) string {
	const unknown, characters = "devel", 12
	if info == nil {
		return unknown
	}
	revision, modified := "", ""
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision" && len(setting.Value) >= characters:
			revision = "-" + setting.Value[:characters]
		case setting.Key == "vcs.modified" && setting.Value == "true":
			modified = "-dirty"
		}
	}
	if revision == "" {
		return unknown
	}
	return unknown + revision + modified
}
