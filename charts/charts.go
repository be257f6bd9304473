// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package charts carries livecpm's charts inside of Go programs and renders them.
package charts

import (
	"embed"
	"fmt"

	"github.com/gardener/gardener/pkg/chartrenderer"
	"k8s.io/apimachinery/pkg/version"
)

const (
	// Garden is the chart for the garden cluster.
	Garden = "livecpm-garden"
	// Agent is the chart for each seed cluster.
	Agent = "livecpm-agent"
)

//go:embed all:livecpm-garden all:livecpm-agent
var files embed.FS

// Manifest is one rendered file that has content.
type Manifest struct {
	// Name is the path of the template.
	Name string
	// Content is YAML of one object.
	Content string
}

// Release is a chart as it is installed in a cluster.
type Release struct {
	// Chart is the name of the chart: Agent or Garden.
	Chart string
	// Name and Namespace are those of the release.
	Name, Namespace string
	// Kubernetes is the version of the cluster, as v1.36.3.
	Kubernetes string
}

// Render renders the chart with the values, or with none. The manifests are in the order in which they are to be
// applied.
func (r Release) Render(values map[string]any) ([]Manifest, error) {
	if values == nil {
		values = map[string]any{}
	}
	rendered, err := chartrenderer.NewWithServerVersion(&version.Info{GitVersion: r.Kubernetes}).RenderEmbeddedFS(
		files, r.Chart, r.Name, r.Namespace, values)
	if err != nil {
		return nil, fmt.Errorf("failed to render chart %s: %w", r.Chart, err)
	}
	manifests := make([]Manifest, 0, len(rendered.Manifests))
	for _, manifest := range rendered.Manifests {
		manifests = append(manifests, Manifest{Name: manifest.Name, Content: manifest.Content})
	}
	return manifests, nil
}
