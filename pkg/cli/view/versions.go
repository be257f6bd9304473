// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import "strings"

// Program is what a program is built from.
type Program struct {
	// Release is the release of livecpm, Gardener the version of Gardener that it is built with, Protocols what agents
	// of this release speak.
	Release   string `json:"release"`
	Gardener  string `json:"gardener"`
	Protocols string `json:"protocols"`
}

// Versions are the versions of everything that is installed.
type Versions struct {
	// Plugin is this program.
	Plugin Program `json:"plugin"`
	// Garden is what is in the garden; nothing if it was not looked at.
	Garden GardenVersions `json:"garden,omitzero"`
	// Seeds are the seeds, with or without an agent.
	Seeds []SeedVersions `json:"seeds,omitempty"`
	// Skew are differences that matter.
	Skew []Skew `json:"skew,omitempty"`
}

// GardenVersions are the versions in the garden. What is not known says why.
type GardenVersions struct {
	// Chart is the version of the chart livecpm-garden.
	Chart        string `json:"chart,omitempty"`
	ChartUnknown string `json:"chartUnknown,omitempty"`
	// Gardener is the version of gardener-apiserver.
	Gardener        string `json:"gardener,omitempty"`
	GardenerUnknown string `json:"gardenerUnknown,omitempty"`
}

// SeedVersions are the versions in a seed.
type SeedVersions struct {
	// Name is the seed.
	Name string `json:"name"`
	// Gardenlet is the version of its gardenlet.
	Gardenlet string `json:"gardenlet,omitempty"`
	// Agent is the release of its agent, Gardener the version that the agent is built with, Protocols what it speaks,
	// Relay the image of its relays.
	Agent     string `json:"agent,omitempty"`
	Gardener  string `json:"gardener,omitempty"`
	Protocols string `json:"protocols,omitempty"`
	Relay     string `json:"relay,omitempty"`
	// Unknown says why the agent is not known.
	Unknown string `json:"unknown,omitempty"`
}

// Skew is a difference between versions.
type Skew struct {
	// Holds reports that it holds migrations.
	Holds bool `json:"holds"`
	// Text says what differs, Link is the URL of the page about it.
	Text string `json:"text"`
	Link string `json:"link"`
}

// Holds reports whether a difference holds migrations.
func (v Versions) Holds() bool {
	for _, skew := range v.Skew {
		if skew.Holds {
			return true
		}
	}
	return false
}

// Text draws the versions.
func (v Versions) Text(o Options) string {
	rows := [][]string{{"plugin", known(v.Plugin.Release), known(v.Plugin.Gardener), "-", v.Plugin.Protocols}}
	if v.Garden != (GardenVersions{}) {
		rows = append(rows, []string{"garden", known(v.Garden.Chart), "-", known(v.Garden.Gardener), "-"})
	}
	relays := make([]string, len(rows))
	for _, seed := range v.Seeds {
		rows = append(rows, []string{"seed " + seed.Name, known(seed.Agent), known(seed.Gardener),
			known(seed.Gardenlet), known(seed.Protocols)})
		relays = append(relays, seed.Relay)
	}
	header := []string{"WHERE", "LIVECPM", "BUILT WITH", "GARDENER", "PROTOCOLS"}
	if o.Wide {
		header = append(header, "RELAY")
		for i := range rows {
			rows[i] = append(rows[i], known(relays[i]))
		}
	}
	var out strings.Builder
	out.WriteString(Table(header, rows))
	for _, unknown := range []string{v.Garden.ChartUnknown, v.Garden.GardenerUnknown} {
		if unknown != "" && o.Wide {
			out.WriteString(flat(unknown) + "\n")
		}
	}
	for i, skew := range v.Skew {
		if i == 0 {
			out.WriteString("\n")
		}
		symbol, c := "✖", red
		if !skew.Holds {
			symbol, c = "!", yellow
		}
		out.WriteString(o.paint(c, symbol) + " " + strings.Join(wrap(skew.Text, o.width()-2), "\n  ") + "\n  " +
			skew.Link + "\n")
	}
	return out.String()
}

func known(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
