// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/pages"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
)

func gateProblem(err error) (problem gate.Problem, remedy string) {
	if err == nil {
		return "", ""
	}
	var open *gate.OpenError
	if errors.As(err, &open) {
		return open.Problem, open.Remedy
	}
	return gate.ProblemNotProved, ""
}

// noLook is a check that needs access to the seed, which there is not.
func (in InstallationInput) noLook(name steps.Check, seed *gardencorev1beta1.Seed) (view.LinkedCheck, bool) {
	link := pages.Base + "usage/README.md#access-to-seeds"
	look, looked := in.Looks[seed.Name]
	switch {
	case !looked:
		return unseen(name, "only the seed shows this",
			"give access to the seed, as in --seed-kubeconfig "+seed.Name+"=PATH", link), true
	case look.Err != nil:
		return unseen(name, look.Err.Error(), "get access to the seed", link), true
	}
	return view.LinkedCheck{}, false
}

func (in InstallationInput) judgeGardenlet(seed *gardencorev1beta1.Seed) view.LinkedCheck {
	link := pages.OfReason(steps.ReasonSeedNotHealthy)
	ready := v1beta1helper.GetCondition(seed.Status.Conditions, gardencorev1beta1.GardenletReady)
	version := "an unknown version"
	if seed.Status.Gardener != nil {
		version = seed.Status.Gardener.Version
	}
	switch {
	case seed.DeletionTimestamp != nil:
		return failing(CheckGardenlet, "the seed is being deleted", "nothing; its shoots have to leave", link)
	case ready == nil:
		return unseen(CheckGardenlet, "the Seed has no condition GardenletReady", "look at the gardenlet", link)
	case ready.Status != gardencorev1beta1.ConditionTrue:
		return failing(CheckGardenlet, fmt.Sprintf("GardenletReady is %s: %s", ready.Status, ready.Message),
			"look at the gardenlet", link)
	}
	return passed(CheckGardenlet, "%s, ready", version)
}

// judgeAgentAlive goes by the agent's lease in the seed, and without access by when it last looked at the cluster DNS,
// which it does every few minutes.
func (in InstallationInput) judgeAgentAlive(seed *gardencorev1beta1.Seed) view.LinkedCheck {
	const remedy = "look at the pods of the agent in the seed (namespace garden, app=livecpm), or at the drop-in " +
		"gardenlet"
	if look, ok := in.Looks[seed.Name]; ok && look.Err == nil {
		if look.Lease == nil {
			return failing(CheckAgentAlive, "no agent has ever led in this seed", remedy, pages.Deployment)
		}
		age, leader := in.renewed(look.Lease)
		if age > summary.LeaseAge {
			return failing(CheckAgentAlive, "nobody has led for "+view.Duration(age), remedy, pages.Deployment)
		}
		return passed(CheckAgentAlive, "%s leads", leader)
	}
	var fact seedfacts.ClusterDNS
	if err := seedfacts.Of(seed, seedfacts.AnnotationClusterDNS, &fact); err != nil {
		return unseen(CheckAgentAlive, err.Error(), remedy, pages.Deployment)
	}
	age := view.Duration(in.Now.Sub(fact.LookedAt.Time))
	if fact.Outdated(in.Now) {
		return failing(CheckAgentAlive, "the agent gave its last sign of life "+age+" ago", remedy,
			pages.Deployment)
	}
	return passed(CheckAgentAlive, "it looked around in its seed %s ago", age)
}

func (in InstallationInput) judgeRelayImage(seed *gardencorev1beta1.Seed) view.LinkedCheck {
	const remedy = "set relay.image of the chart livecpm-agent to an image that the seed can pull"
	var agent seedfacts.Agent
	if err := seedfacts.Of(seed, seedfacts.AnnotationAgent, &agent); err != nil {
		return unseen(CheckRelayImage, err.Error(), "update the agent, which then publishes it",
			pages.Deployment)
	}
	if stuck := in.Looks[seed.Name].Stuck; len(stuck) > 0 {
		return failing(CheckRelayImage, "pods do not start: "+strings.Join(stuck, "; "), remedy, pages.Deployment)
	}
	if _, version, _ := strings.Cut(lastPart(agent.Relay), ":"); !strings.Contains(agent.Relay, "@") &&
		version != agent.Release && !strings.HasPrefix(agent.Release, "devel") {
		return failing(CheckRelayImage, fmt.Sprintf("the agent is %s, relays get %s", agent.Release, agent.Relay),
			remedy, pages.Deployment)
	}
	return passed(CheckRelayImage, "%s", agent.Relay)
}

// lastPart returns what is behind the last slash of an image: the registry may have a port.
func lastPart(image string) string { return image[strings.LastIndex(image, "/")+1:] }

// outdated is a check that could not be made because the agent has not looked for too long.
func (in InstallationInput) outdated(name steps.Check, looked seedfacts.Looked, link string) view.LinkedCheck {
	return unseen(name, "the agent has not looked for "+view.Duration(in.Now.Sub(looked.LookedAt.Time)),
		"see AgentAlive", link)
}

func (in InstallationInput) judgeClusterDNS(seed *gardencorev1beta1.Seed) view.LinkedCheck {
	link := pages.OfReason(steps.ReasonClusterDNSUnfit)
	var fact seedfacts.ClusterDNS
	if err := seedfacts.Of(seed, seedfacts.AnnotationClusterDNS, &fact); err != nil {
		return unseen(CheckClusterDNS, err.Error(), "wait until the agent has looked", link)
	}
	switch {
	case fact.Outdated(in.Now):
		return in.outdated(CheckClusterDNS, fact.Looked, link)
	case fact.Problem != "":
		return failing(CheckClusterDNS, fact.Problem, "install CoreDNS in the seed", link)
	}
	return passed(CheckClusterDNS, "answers for the EndpointSlices of relays")
}

func (in InstallationInput) judgeDNSAccess(seed *gardencorev1beta1.Seed) view.LinkedCheck {
	link := pages.OfReason(steps.ReasonDNSNotAccessible)
	var access seedfacts.DNSAccess
	if err := seedfacts.Of(seed, seedfacts.AnnotationDNSAccess, &access); err != nil {
		return unseen(CheckDNSAccess, err.Error(), "wait until the agent has looked", link)
	}
	var names, missing, unknown []string
	for _, domain := range access.Domains {
		names = append(names, orUnnamed(domain.Domain))
		switch {
		case domain.Missing != "":
			missing = append(missing, orUnnamed(domain.Domain)+": "+domain.Missing)
		case domain.Outdated(in.Now):
			unknown = append(unknown, orUnnamed(domain.Domain)+": the agent has not looked for "+
				view.Duration(in.Now.Sub(domain.LookedAt.Time)))
		case len(domain.Unknown) > 0:
			unknown = append(unknown, orUnnamed(domain.Domain)+": "+strings.Join(domain.Unknown, ", "))
		}
	}
	switch {
	case len(missing) > 0:
		return failing(CheckDNSAccess, strings.Join(missing, "; "), "create the credentials that are missing", link)
	case len(unknown) > 0:
		return unseen(CheckDNSAccess, strings.Join(unknown, "; "), "let the agent reach them", link)
	case len(names) == 0:
		return unseen(CheckDNSAccess, "the agent has looked at no domain", "configure spec.dns of the seed", link)
	}
	return passed(CheckDNSAccess, "credentials and name servers for %s", strings.Join(names, ", "))
}

func orUnnamed(domain string) string {
	if domain == "" {
		return "a domain"
	}
	return domain
}

// judgeGateway goes by the Seed: each needs an ingress domain of its own. With access, the gateway has to have an
// address and pods.
func (in InstallationInput) judgeGateway(seed *gardencorev1beta1.Seed) view.LinkedCheck {
	link := pages.OfReason(steps.ReasonIngressDomainMissing)
	if seed.Spec.Ingress == nil || seed.Spec.Ingress.Domain == "" {
		return failing(CheckGateway, "the seed has no ingress domain", "configure spec.ingress.domain of the seed",
			link)
	}
	for _, other := range in.Seeds {
		if other.Name != seed.Name && other.Spec.Ingress != nil &&
			other.Spec.Ingress.Domain == seed.Spec.Ingress.Domain {
			return failing(CheckGateway, fmt.Sprintf("seed %s has the same ingress domain %s", other.Name,
				seed.Spec.Ingress.Domain), "give each seed its own ingress domain", link)
		}
	}
	if unknown, ok := in.noLook(CheckGateway, seed); ok {
		unknown.Evidence = seed.Spec.Ingress.Domain + "; whether the gateway serves: " + unknown.Evidence
		return unknown
	}
	look := in.Looks[seed.Name]
	const remedy = "look at the Service and the Deployment istio-ingressgateway in the namespace istio-ingress"
	switch {
	case look.Gateway == "":
		return failing(CheckGateway, "the load balancer of the ingress gateway has no address", remedy,
			pages.Base+"deployment/clouds.md")
	case look.GatewayReady == 0:
		return failing(CheckGateway, fmt.Sprintf("none of %d pods of the ingress gateway is ready",
			look.GatewayPods), remedy, pages.Base+"deployment/clouds.md")
	}
	return passed(CheckGateway, "%s, address %s, %d of %d pods ready", seed.Spec.Ingress.Domain, look.Gateway,
		look.GatewayReady, look.GatewayPods)
}

// judgeSeedBackup goes by what Gardener says of the bucket, and then by what arrives in it.
func (in InstallationInput) judgeSeedBackup(seed *gardencorev1beta1.Seed) view.LinkedCheck {
	link := pages.OfReason(steps.ReasonBackupNotReady)
	if seed.Spec.Backup == nil {
		return failing(CheckBackup, "the seed has no backup", "configure spec.backup of the seed", link)
	}
	ready := v1beta1helper.GetCondition(seed.Status.Conditions, gardencorev1beta1.SeedBackupBucketsReady)
	switch {
	case ready == nil:
		return unseen(CheckBackup, "the Seed has no condition BackupBucketsReady",
			"wait until the bucket has been looked at", link)
	case ready.Status == gardencorev1beta1.ConditionTrue || ready.Status == gardencorev1beta1.ConditionProgressing:
		return in.judgeWrittenBackups(seed)
	case ready.Status == gardencorev1beta1.ConditionUnknown:
		return unseen(CheckBackup, ready.Message, "look at the BackupBucket of the seed", link)
	}
	return failing(CheckBackup, ready.Message, "look at the BackupBucket of the seed", link)
}

func (in InstallationInput) judgeWrittenBackups(seed *gardencorev1beta1.Seed) view.LinkedCheck {
	link := pages.OfReason(steps.ReasonBackupNotReady)
	var fact seedfacts.Backups
	if err := seedfacts.Of(seed, seedfacts.AnnotationBackups, &fact); err != nil {
		return unseen(CheckBackup, err.Error(), "wait until the agent has looked", link)
	}
	provider := seed.Spec.Backup.Provider
	switch {
	case fact.Outdated(in.Now):
		return in.outdated(CheckBackup, fact.Looked, link)
	case !fact.InOrder():
		return failing(CheckBackup, "no etcd of the seed has its backups written to the bucket: "+fact.Problem,
			"let etcd-backup-restore write to the bucket", link)
	case fact.Written == 0:
		return passed(CheckBackup, "bucket of provider %s, to which no etcd has written yet", provider)
	}
	return passed(CheckBackup, "bucket of provider %s, backups of %s arrive", provider,
		conditions.Count(fact.Written, "etcd"))
}

func (in InstallationInput) judgeExtensions(seed *gardencorev1beta1.Seed) view.LinkedCheck {
	link := pages.OfReason(steps.ReasonExtensionsNotReady)
	var fact seedfacts.Extensions
	if err := seedfacts.Of(seed, seedfacts.AnnotationExtensions, &fact); err != nil {
		return unseen(CheckExtensions, err.Error(), "wait until the agent has looked", link)
	}
	switch {
	case fact.Outdated(in.Now):
		return in.outdated(CheckExtensions, fact.Looked, link)
	case len(fact.NotReady) > 0:
		var wrong []string
		for _, id := range slices.Sorted(maps.Keys(fact.NotReady)) {
			wrong = append(wrong, id+": "+fact.NotReady[id])
		}
		return failing(CheckExtensions, strings.Join(wrong, "; "), "get the ControllerInstallations in order", link)
	}
	return passed(CheckExtensions, "%s of extensions are reconciled", conditions.Count(len(fact.Ready), "type"))
}

func (in InstallationInput) judgeMonitoring(seed *gardencorev1beta1.Seed) view.LinkedCheck {
	if unknown, ok := in.noLook(CheckMonitoring, seed); ok {
		return unknown
	}
	look := in.Looks[seed.Name]
	if look.Rules == 0 || look.Monitors == 0 {
		return failing(CheckMonitoring, fmt.Sprintf("%d PrometheusRules and %d ServiceMonitors of livecpm in the "+
			"namespace garden", look.Rules, look.Monitors), "set monitoring.enabled in the chart livecpm-agent",
			pages.Monitoring)
	}
	return passed(CheckMonitoring, "alerts and metrics are set up")
}
