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

// Render renders the named chart for a cluster of the given Kubernetes version ("v1.36.3"). The manifests are in the
// order in which they are to be applied.
func Render(chart, release, namespace, kubernetesVersion string, values map[string]any) ([]Manifest, error) {
	if values == nil {
		values = map[string]any{}
	}
	rendered, err := chartrenderer.NewWithServerVersion(&version.Info{GitVersion: kubernetesVersion}).RenderEmbeddedFS(
		files, chart, release, namespace, values)
	if err != nil {
		return nil, fmt.Errorf("failed to render chart %s: %w", chart, err)
	}
	manifests := make([]Manifest, 0, len(rendered.Manifests))
	for _, manifest := range rendered.Manifests {
		manifests = append(manifests, Manifest{Name: manifest.Name, Content: manifest.Content})
	}
	return manifests, nil
}
