// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package seedsetup

import (
	"context"
	_ "embed"
	"fmt"
	"net"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener/imagevector"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/component"
	"github.com/gardener/gardener/pkg/component/autoscaling/vpa"
	etcdconstants "github.com/gardener/gardener/pkg/component/etcd/etcd/constants"
	"github.com/gardener/gardener/pkg/component/networking/istio"
	"github.com/gardener/gardener/pkg/controllerutils"
	"github.com/gardener/gardener/pkg/utils"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
	"github.com/livecpm/livecpm/test/landscape/apply"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/image"
)

// This file is about gardenlets that set up their seed themselves. Before them there is only what an operator's cluster
// has already, and what lets placeholders pass for the programs that they stand for.

// gardenletPackages are the main packages of the gardenlets, as the go command knows them in this repository.
var gardenletPackages = map[config.Gardenlet]string{
	config.GardenletComposed: "./test/landscape/gardenlet",
	config.GardenletUpstream: "github.com/gardener/gardener/cmd/gardenlet",
	config.GardenletDropIn:   "./cmd/gardenlet",
}

//go:embed manifests/placeholders.yaml
var placeholdersManifest string

const (
	// agentConfigMap has the configuration of the agent in a drop-in gardenlet.
	agentConfigMap = "landscape-livecpm-agent"
	agentConfigDir = "/etc/livecpm-agent"
	agentConfigKey = "config.yaml"

	// envRelayImage and envAgentConfig are the variables of the drop-in. The program itself is not linked into the
	// landscape's.
	envRelayImage  = "LIVECPM_RELAY_IMAGE"
	envAgentConfig = "LIVECPM_AGENT_CONFIG"
)

// stepsBeforeGardenlet is what Up does where the gardenlet does the rest.
func (s *Setup) stepsBeforeGardenlet() []step {
	return []step{
		{"what the cluster has before it becomes a seed", s.deployGivens},
		{"namespaces", s.deployNamespaces},
		{"what machines need", s.deployCloud},
		{"what makes Etcds older", s.deployOlderEtcds},
		{"gardenlet", s.deployWholeGardenlet},
		{"gardenlet to become available",
			func(ctx context.Context) error { return s.awaitDeployments(ctx, gardenletKey) }},
	}
}

// deployGivens deploys the definitions of an autoscaler that the cluster has by itself (the Seed's settings say so),
// the policies for placeholders, and the filters of gateways, which are in force before the gardenlet deploys the
// first.
func (s *Setup) deployGivens(ctx context.Context) error {
	crds, err := vpa.NewCRD(s.client, nil)
	if err != nil {
		return err
	}
	if err := component.OpWait(crds).Deploy(ctx); err != nil {
		return fmt.Errorf("failed to deploy custom resource definitions of the vertical pod autoscaler: %w", err)
	}
	policies, err := PlaceholderPolicies()
	if err != nil {
		return err
	}
	if err := apply.Manifests(ctx, s.client, policies); err != nil {
		return err
	}
	istioCRDs, err := istio.NewCRD(s.client)
	if err != nil {
		return err
	}
	if err := component.OpWait(istioCRDs).Deploy(ctx); err != nil {
		return fmt.Errorf("failed to deploy custom resource definitions of Istio: %w", err)
	}
	return s.deployEnvoyFilters(ctx)
}

// PlaceholderPolicies returns the admission policies that let placeholders pass for the programs that they stand for.
func PlaceholderPolicies() ([]byte, error) {
	return apply.Render("placeholders.yaml", placeholdersManifest, map[string]string{"Image": PlaceholderImage})
}

// deployWholeGardenlet applies upstream's chart, and before it what the drop-in reads.
func (s *Setup) deployWholeGardenlet(ctx context.Context) error {
	if s.Config.Gardenlet == config.GardenletDropIn {
		content, err := s.agentConfiguration()
		if err != nil {
			return err
		}
		configMap := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: v1beta1constants.GardenNamespace, Name: agentConfigMap},
		}
		if _, err := controllerutils.GetAndCreateOrMergePatch(ctx, s.client, configMap, func() error {
			configMap.Data = map[string]string{agentConfigKey: string(content)}
			return nil
		}); err != nil {
			return fmt.Errorf("failed to write ConfigMap %s: %w", agentConfigMap, err)
		}
	}
	return s.deployGardenlet(ctx)
}

// addVariantValues adds to the values of the gardenlet's chart what the gardenlets have that set up their seed.
func (s *Setup) addVariantValues() error {
	if !s.Config.Gardenlet.SetsUpSeed() {
		return nil
	}
	overwrite, err := imageVectorOverwrite(imagevector.Containers())
	if err != nil {
		return err
	}
	s.values["imageVectorOverwrite"] = string(overwrite)
	if s.Config.Gardenlet != config.GardenletDropIn {
		return nil
	}

	agent, err := s.agentConfiguration()
	if err != nil {
		return err
	}
	s.values = utils.MergeMaps(s.values, map[string]any{
		"env": []any{
			map[string]any{"name": envRelayImage, "value": image.Ref("livecpm-relay")},
			map[string]any{"name": envAgentConfig, "value": agentConfigDir + "/" + agentConfigKey},
		},
		"podLabels": dropInLabels(),
		"additionalVolumes": []any{
			map[string]any{"name": "livecpm-agent", "configMap": map[string]any{"name": agentConfigMap}},
		},
		"additionalVolumeMounts": []any{
			map[string]any{"name": "livecpm-agent", "mountPath": agentConfigDir, "readOnly": true},
		},
		// The chart rolls its pods for its own configuration only.
		"podAnnotations": map[string]any{
			"landscape.livecpm.dev/agent-configuration": utils.ComputeSHA256Hex(agent)[:16],
		},
	})
	return nil
}

// dropInLabels are those by which Gardener's policies let the pods of a drop-in reach what an agent reaches in the
// namespaces of shoots and upstream's gardenlet does not (docs/deployment/gardenlet.md). The chart of the agent gives
// them to its own pods.
func dropInLabels() map[string]any {
	labels := map[string]any{
		gardenerutils.NetworkPolicyLabel(v1beta1constants.LabelNetworkPolicyShootNamespaceAlias+"-"+exposure.Name,
			naming.PortRelayClient): v1beta1constants.LabelNetworkPolicyAllowed,
	}
	for _, etcdRole := range naming.EtcdRoles {
		for _, port := range []int32{naming.PortClient, etcdconstants.PortBackupRestore} {
			labels[gardenerutils.NetworkPolicyLabel(v1beta1constants.LabelNetworkPolicyShootNamespaceAlias+"-"+
				naming.ClientServiceName(etcdRole), port)] = v1beta1constants.LabelNetworkPolicyAllowed
		}
	}
	// Upstream's chart has it already.
	delete(labels, gardenerutils.NetworkPolicyLabel(v1beta1constants.LabelNetworkPolicyShootNamespaceAlias+"-"+
		naming.ClientServiceName(v1beta1constants.ETCDRoleMain), etcdconstants.PortBackupRestore))
	return labels
}

// agentConfiguration is the file of the agent in a drop-in gardenlet.
func (s *Setup) agentConfiguration() ([]byte, error) {
	content, err := yaml.Marshal(utils.MergeMaps(AgentSettings(s.Config), map[string]any{
		"apiVersion": configv1alpha1.SchemeGroupVersion.String(),
		"kind":       "AgentConfiguration",
	}))
	if err != nil {
		return nil, fmt.Errorf("failed to encode the agent's configuration: %w", err)
	}
	return content, nil
}

// AgentSettings are those of the agent's settings that an operator would change for this landscape.
func AgentSettings(cfg *config.Config) map[string]any {
	var resolvers []any
	for _, server := range cfg.NameServers() {
		resolvers = append(resolvers, net.JoinHostPort(server, "53"))
	}
	return map[string]any{
		// How long each task of a flow takes is only said there.
		"logLevel": "debug",
		"dns":      map[string]any{"resolvers": resolvers, "shortTTL": cfg.Waits.ShortTTL().String()},
		// Kept connections do not end by themselves: what is left after the clients' DNS caches is moved by the
		// graceful end of the kube-apiserver. Waiting longer for them would only make the demo longer; the benchmark's
		// part production has livecpm's own default.
		"flows": map[string]any{"drainTimeout": cfg.Waits.DrainTimeout().String()},
	}
}
