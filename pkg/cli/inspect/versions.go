// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/pages"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
)

// labelChart is where Helm's charts say of which chart and version an object is.
const labelChart = "helm.sh/chart"

// ReadVersions reads the versions of what is installed in the garden and, as their agents have published them, in the
// seeds. Only the seeds have to be readable.
func ReadVersions(ctx context.Context, garden *access.Garden, plugin view.Program) (view.Versions, error) {
	out := view.Versions{Plugin: plugin}
	seeds, err := garden.Seeds(ctx)
	if err != nil {
		return out, err
	}
	out.Garden.Chart, out.Garden.ChartUnknown = gardenChart(ctx, garden.Client)
	out.Garden.Gardener, out.Garden.GardenerUnknown = gardenerVersion(ctx, garden.Client)
	for i := range seeds {
		out.Seeds = append(out.Seeds, seedVersions(&seeds[i]))
	}
	out.Skew = skew(out)
	return out, nil
}

// gardenChart returns the version of the chart that has installed the gate, or why it is not known.
func gardenChart(ctx context.Context, reader client.Reader) (version, unknown string) {
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	if err := reader.Get(ctx, client.ObjectKey{Name: gate.PolicyName}, policy); err != nil {
		return "", fmt.Sprintf("failed to get ValidatingAdmissionPolicy %s: %v", gate.PolicyName, err)
	}
	chart, ok := policy.Labels[labelChart]
	if !ok {
		return "", fmt.Sprintf("ValidatingAdmissionPolicy %s has no label %s", gate.PolicyName, labelChart)
	}
	return strings.TrimPrefix(chart, "livecpm-garden-"), ""
}

// gardenerVersion returns the version of gardener-apiserver, as gardener-operator publishes it to everybody.
func gardenerVersion(ctx context.Context, reader client.Reader) (version, unknown string) {
	key := client.ObjectKey{Namespace: gardencorev1beta1.GardenerSystemPublicNamespace,
		Name: v1beta1constants.ConfigMapNameGardenerInfo}
	configMap := &corev1.ConfigMap{}
	switch err := reader.Get(ctx, key, configMap); {
	case apierrors.IsNotFound(err):
		return "", fmt.Sprintf("there is no ConfigMap %s, which gardener-operator writes", key)
	case err != nil:
		return "", fmt.Sprintf("failed to get ConfigMap %s: %v", key, err)
	}
	info := gardenerutils.APIServerInfo{}
	content := configMap.Data[v1beta1constants.GardenerInfoConfigMapDataKeyGardenerAPIServer]
	if err := yaml.Unmarshal([]byte(content), &info); err != nil {
		return "", fmt.Sprintf("failed to read ConfigMap %s: %v", key, err)
	}
	return info.Version, ""
}

func seedVersions(seed *gardencorev1beta1.Seed) view.SeedVersions {
	out := view.SeedVersions{Name: seed.Name}
	if seed.Status.Gardener != nil {
		out.Gardenlet = seed.Status.Gardener.Version
	}
	out.Protocols = seed.Annotations[steps.SeedAnnotationProtocols]
	var agent seedfacts.Agent
	if err := seedfacts.Of(seed, seedfacts.AnnotationAgent, &agent); err != nil {
		out.Unknown = "no agent has published what it is"
		if _, ok := seed.Annotations[seedfacts.AnnotationAgent]; ok {
			out.Unknown = err.Error()
		}
		return out
	}
	out.Agent, out.Gardener, out.Relay = agent.Release, agent.Gardener, agent.Relay
	return out
}

// skew returns the differences that matter. Those that hold migrations come first.
func skew(v view.Versions) []view.Skew {
	var out, notes []view.Skew
	gardenlets, releases := map[string][]string{}, map[string][]string{}
	for i, seed := range v.Seeds {
		if seed.Protocols == "" && seed.Unknown != "" {
			continue // no agent has been there
		}
		gardenlets[seed.Gardenlet] = append(gardenlets[seed.Gardenlet], seed.Name)
		if seed.Unknown == "" {
			releases[seed.Agent] = append(releases[seed.Agent], seed.Name)
			if seed.Gardener != seed.Gardenlet {
				out = append(out, view.Skew{Holds: true, Link: pages.OfReason(steps.ReasonVersionSkew),
					Text: fmt.Sprintf("the agent of seed %s is built with Gardener %s, its gardenlet is %s", seed.Name,
						seed.Gardener, orNone(seed.Gardenlet))})
			}
		}
		for _, other := range v.Seeds[i+1:] {
			if problem := protocolsDiffer(seed, other); problem != "" {
				out = append(out, view.Skew{Holds: true, Link: pages.OfReason(steps.ReasonAgentProtocolsDiffer),
					Text: problem})
			}
		}
	}
	if len(gardenlets) > 1 {
		out = append(out, view.Skew{Holds: true, Link: pages.OfReason(steps.ReasonVersionSkew),
			Text: "gardenlets differ, and nothing migrates between their seeds: " + told(gardenlets)})
	}
	if len(releases) > 1 {
		notes = append(notes, view.Skew{Link: pages.Deployment, Text: "agents are of several releases: " +
			told(releases)})
	}
	for version := range releases {
		if len(releases) == 1 && version != v.Plugin.Release {
			notes = append(notes, view.Skew{Link: pages.Base + "usage/README.md",
				Text: fmt.Sprintf("this plugin is %s, the agents are %s", v.Plugin.Release, version)})
		}
		if chart := v.Garden.Chart; len(releases) == 1 && chart != "" &&
			strings.TrimPrefix(version, "v") != strings.TrimPrefix(chart, "v") {
			notes = append(notes, view.Skew{Link: pages.Deployment,
				Text: fmt.Sprintf("the chart in the garden is %s, the agents are %s", chart, version)})
		}
	}
	return append(out, notes...)
}

func protocolsDiffer(a, b view.SeedVersions) string {
	first, errFirst := steps.ParseProtocols(a.Protocols)
	second, errSecond := steps.ParseProtocols(b.Protocols)
	if errFirst != nil || errSecond != nil {
		return ""
	}
	if _, ok := first.Common(second); ok {
		return ""
	}
	return fmt.Sprintf("the agents of the seeds %s and %s do not work together: they speak %s and %s", a.Name, b.Name,
		first, second)
}

// told lists versions with the seeds that have them.
func told(versions map[string][]string) string {
	var out []string
	for _, version := range slices.Sorted(maps.Keys(versions)) {
		out = append(out, fmt.Sprintf("%s in %s", orNone(version), strings.Join(versions[version], ", ")))
	}
	return strings.Join(out, "; ")
}

func orNone(version string) string {
	if version == "" {
		return "an unknown version"
	}
	return version
}
