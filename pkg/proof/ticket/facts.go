// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package ticket makes the report of a live migration that one attaches to a change ticket: one file with the facts,
// for people and for programs, and with a digest or a signature over them. It is pure: it is given what is known, and
// says of the rest that it is not known.
package ticket

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

const (
	// Kind is what a program finds in the facts.
	Kind = "LiveMigrationTicket"
	// Version is the version of their schema: fields may be added to it.
	Version = "v1"
)

// Facts are what is known of a migration. Times are in UTC, to the second. What is empty is not known, and Unknown says
// why.
type Facts struct {
	// Kind and Version are those above.
	Kind    string `json:"kind"`
	Version string `json:"version"`
	// Made is when the facts were collected, MadeBy the release of the plugin that has.
	Made   time.Time `json:"made"`
	MadeBy string    `json:"madeBy"`
	// Shoot is the shoot.
	Shoot Shoot `json:"shoot"`
	// Source and Destination are the seeds.
	Source      string `json:"source,omitempty"`
	Destination string `json:"destination,omitempty"`
	// Result is how the migration has ended, or the state that it is in. Over reports that it has ended.
	Result string `json:"result"`
	Over   bool   `json:"over"`
	// Requested is who has started it.
	Requested Requested `json:"requested,omitzero"`
	// Started and Ended are when; nil if that is not known or has not come. Seconds is the time between them.
	Started *time.Time `json:"started,omitempty"`
	Ended   *time.Time `json:"ended,omitempty"`
	Seconds int64      `json:"seconds,omitempty"`
	// Steps are the steps in their order.
	Steps []Step `json:"steps,omitempty"`
	// Versions are those of what took part.
	Versions Versions `json:"versions"`
	// Etcds are the member lists.
	Etcds []Etcd `json:"etcds,omitempty"`
	// Counts are what was counted.
	Counts []Count `json:"counts,omitempty"`
	// Unknown is what is not known.
	Unknown []Unknown `json:"unknown,omitempty"`
}

// Shoot identifies a shoot.
type Shoot struct {
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	UID         string `json:"uid,omitempty"`
	TechnicalID string `json:"technicalID,omitempty"`
}

// Requested is who has started a migration.
type Requested struct {
	// By is the user, as the plugin has written it on the Shoot: whoever may change the Shoot can write it as well.
	By string `json:"by,omitempty"`
	// With is the program that has set the seed's name, At when it has.
	With string     `json:"with,omitempty"`
	At   *time.Time `json:"at,omitempty"`
}

// Step is a step.
type Step struct {
	Number    int    `json:"number"`
	Condition string `json:"condition"`
	Owner     string `json:"owner"`
	// State is what its condition says if it has not ended.
	State string `json:"state,omitempty"`
	// Seconds is how long it took; nil if that is not known.
	Seconds *int64 `json:"seconds,omitempty"`
	// Reasons are where it stood, as far as somebody has seen that.
	Reasons []Stand `json:"reasons,omitempty"`
}

// Stand is a time in which a step stood at one reason; without one if nobody has seen it.
type Stand struct {
	Reason       string `json:"reason,omitempty"`
	Milliseconds int64  `json:"milliseconds"`
}

// Versions are the versions of what took part in a migration, when the facts were collected.
type Versions struct {
	// Plugin is the release of the plugin, PluginGardener the version of Gardener that it is built with.
	Plugin         string `json:"plugin"`
	PluginGardener string `json:"pluginGardener,omitempty"`
	// Chart is that of the chart in the garden, Gardener that of gardener-apiserver.
	Chart    string `json:"chart,omitempty"`
	Gardener string `json:"gardener,omitempty"`
	// Source and Destination are those in the seeds.
	Source      SeedVersions `json:"source,omitzero"`
	Destination SeedVersions `json:"destination,omitzero"`
}

// SeedVersions are the versions in a seed: of the agent, of Gardener in it, of the gardenlet, and the relays' image.
type SeedVersions struct {
	Agent         string `json:"agent,omitempty"`
	AgentGardener string `json:"agentGardener,omitempty"`
	Gardenlet     string `json:"gardenlet,omitempty"`
	Relay         string `json:"relay,omitempty"`
}

// Etcd is an etcd cluster before and after a migration.
type Etcd struct {
	Name string `json:"name"`
	// IDBefore and IDAfter identify the cluster.
	IDBefore string `json:"idBefore,omitempty"`
	IDAfter  string `json:"idAfter,omitempty"`
	// Before and After are the members.
	Before []Member `json:"before,omitempty"`
	After  []Member `json:"after,omitempty"`
}

// Member is a member of an etcd cluster.
type Member struct {
	Name    string `json:"name"`
	Learner bool   `json:"learner,omitempty"`
}

// Count is a number of something.
type Count struct {
	Name string `json:"name"`
	// Value is how many, Of how many there were in all; nil if that says nothing.
	Value int64  `json:"value"`
	Of    *int64 `json:"of,omitempty"`
	// Bad reports that it should be another one.
	Bad bool `json:"bad,omitempty"`
}

// Unknown is something that is not known.
type Unknown struct {
	// What is not known, Why, and how it could be known next time.
	What string `json:"what"`
	Why  string `json:"why"`
}

// Missing adds something that is not known.
func (f *Facts) Missing(what, why string) {
	f.Unknown = append(f.Unknown, Unknown{What: what, Why: why})
}

// Canonical returns the facts as the one line of JSON that digest and signature are about: keys in order, no spaces, no
// floating-point numbers. The same facts are always the same line.
func (f Facts) Canonical() ([]byte, error) {
	content, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("failed to encode the facts: %w", err)
	}
	return canonical(content)
}

func canonical(content []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("failed to decode the facts: %w", err)
	}
	if decoder.More() {
		return nil, errors.New("failed to decode the facts: there is something behind them")
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("failed to encode the facts: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// parse reads canonical facts.
func parse(content []byte) (Facts, error) {
	var out Facts
	again, err := canonical(content)
	if err != nil {
		return out, err
	}
	if !bytes.Equal(again, content) {
		return out, errors.New("the facts are not written as this plugin writes them")
	}
	if err := json.Unmarshal(content, &out); err != nil {
		return out, fmt.Errorf("failed to decode the facts: %w", err)
	}
	if out.Kind != Kind || out.Version != Version {
		return out, fmt.Errorf("the facts are of kind %q, version %q; this plugin knows %s, %s", out.Kind, out.Version,
			Kind, Version)
	}
	return out, nil
}
