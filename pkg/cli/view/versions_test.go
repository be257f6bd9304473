// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/pages"
)

var _ = Describe("Versions", func() {
	versions := view.Versions{
		Plugin: view.Program{Release: "v0.2.0", Gardener: "v1.150.0", Protocols: "1-2"},
		Garden: view.GardenVersions{Chart: "0.1.0",
			GardenerUnknown: "there is no ConfigMap gardener-system-public/gardener-info"},
		Seeds: []view.SeedVersions{
			{Name: "seed-a", Gardenlet: "v1.150.0", Agent: "v0.1.0", Gardener: "v1.150.0", Protocols: "1",
				Relay: "registry.example.org/livecpm-relay:v0.1.0"},
			{Name: "seed-b", Gardenlet: "v1.149.2", Agent: "v0.1.0", Gardener: "v1.150.0", Protocols: "1",
				Relay: "registry.example.org/livecpm-relay:v0.1.0"},
			{Name: "seed-c", Gardenlet: "v1.150.0", Unknown: "no agent has published what it is"},
		},
		Skew: []view.Skew{
			{Holds: true, Link: pages.OfReason("VersionSkew"),
				Text: "the agent of seed seed-b is built with Gardener v1.150.0, its gardenlet is v1.149.2"},
			{Link: pages.Base + "usage/README.md", Text: "this plugin is v0.2.0, the agents are v0.1.0"},
		},
	}

	It("should draw a table and what differs", func() {
		expectGolden("versions", versions.Text(view.Options{}))
		expectGolden("versions-wide", versions.Text(view.Options{Wide: true, Color: true}))
		expectGolden("versions-client", view.Versions{Plugin: versions.Plugin}.Text(view.Options{}))
	})
})
