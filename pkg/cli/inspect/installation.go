// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/pages"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
)

// Checks of an installation. Those of seeds that a migration makes as well have the names of their guards.
const (
	CheckAgents            steps.Check = "Agents"
	CheckGatePolicy        steps.Check = "GatePolicy"
	CheckGateInForce       steps.Check = "GateInForce"
	CheckControllerManager steps.Check = "ControllerManager"
	CheckVersions          steps.Check = "Versions"
	CheckPermissions       steps.Check = "Permissions"
	CheckGardenlet         steps.Check = "Gardenlet"
	CheckAgentAlive        steps.Check = "AgentAlive"
	CheckRelayImage        steps.Check = "RelayImage"
	CheckClusterDNS        steps.Check = "ClusterDNS"
	CheckDNSAccess         steps.Check = "DNSAccess"
	CheckExtensions        steps.Check = "ExtensionsInstalled"
	CheckGateway           steps.Check = "Gateway"
	CheckMonitoring        steps.Check = "Monitoring"
)

// InstallationInput is what an installation is judged by.
type InstallationInput struct {
	// Now is the time.
	Now time.Time
	// Seeds are the seeds to judge.
	Seeds []gardencorev1beta1.Seed
	// Policy and Binding are the gate; nil with an error if there is none or it could not be read.
	Policy    *admissionregistrationv1.ValidatingAdmissionPolicy
	Binding   *admissionregistrationv1.ValidatingAdmissionPolicyBinding
	PolicyErr error
	// Proofs are those of the gate for the shoots that are in flight; ShootsErr says why the shoots are not known.
	Proofs    []GateProof
	ShootsErr error
	// Lease is that of the controller manager.
	Lease    *coordinationv1.Lease
	LeaseErr error
	// Permissions are those of the user.
	Permissions []Permission
	// Versions are the versions.
	Versions view.Versions
	// Looks are what was seen in the seeds, by name.
	Looks map[string]SeedLook
}

// GateProof is the proof of the gate for one shoot.
type GateProof struct {
	// Shoot is namespace and name, Err why the gate is not proved.
	Shoot string
	Err   error
}

// Permission is something that commands need.
type Permission struct {
	// For are the commands, Text says what they need and may not.
	For, Text string
	// Optional says that they do without, and tell less.
	Optional bool
	// Allowed is the answer; Err says why there is none.
	Allowed bool
	Err     error
}

// SeedLook is what was seen in a seed.
type SeedLook struct {
	// Err says why nothing was seen.
	Err error
	// Lease is that of the agent; nil if there is none.
	Lease *coordinationv1.Lease
	// Stuck are pods of livecpm that do not start, with the reason.
	Stuck []string
	// Gateway is what the load balancer of the ingress gateway has for an address; empty if it has none. GatewayPods
	// are the pods, GatewayReady those that are ready.
	Gateway                   string
	GatewayPods, GatewayReady int
	// Rules and Monitors count the PrometheusRules and ServiceMonitors of livecpm.
	Rules, Monitors int
}

// Installation judges an installation.
func Installation(in InstallationInput) view.Installation {
	var out view.Installation
	var with []*gardencorev1beta1.Seed
	var without []string
	for i := range in.Seeds {
		seed := &in.Seeds[i]
		if in.hasAgent(seed) {
			with = append(with, seed)
			continue
		}
		without = append(without, seed.Name)
	}
	out.Add("garden", in.judgeAgentsThere(len(with)), in.judgeGatePolicy(), in.judgeGateInForce(),
		in.judgeControllerManager(), in.judgeVersions(), in.judgePermissions())
	for _, seed := range with {
		out.Add("seed "+seed.Name, in.judgeGardenlet(seed), in.judgeAgentAlive(seed), in.judgeRelayImage(seed),
			in.judgeClusterDNS(seed), in.judgeDNSAccess(seed), in.judgeExtensions(seed), in.judgeGateway(seed),
			in.judgeSeedBackup(seed), in.judgeMonitoring(seed))
	}
	if len(without) > 0 {
		out.Notes = append(out.Notes,
			"no agent is in "+strings.Join(without, ", ")+"; nothing migrates live from or to there")
	}
	return out
}

func (in InstallationInput) hasAgent(seed *gardencorev1beta1.Seed) bool {
	for _, annotation := range []string{seedfacts.AnnotationAgent, steps.SeedAnnotationProtocols} {
		if _, ok := seed.Annotations[annotation]; ok {
			return true
		}
	}
	return in.Looks[seed.Name].Lease != nil
}

func passed(name steps.Check, format string, args ...any) view.LinkedCheck {
	return view.LinkedCheck{Check: view.Check{Name: name, Status: view.Pass, Evidence: fmt.Sprintf(format, args...)}}
}

// failing is a check that did not pass, with what to do and the page about it.
func failing(name steps.Check, evidence, remedy, link string) view.LinkedCheck {
	return view.LinkedCheck{Link: link,
		Check: view.Check{Name: name, Status: view.Fail, Evidence: evidence, Remedy: remedy}}
}

// unseen is a check that could not be made, with what it takes to make it.
func unseen(name steps.Check, evidence, remedy, link string) view.LinkedCheck {
	return view.LinkedCheck{Link: link,
		Check: view.Check{Name: name, Status: view.Unknown, Evidence: evidence, Remedy: remedy}}
}

func (in InstallationInput) judgeAgentsThere(agents int) view.LinkedCheck {
	evidence := fmt.Sprintf("an agent is in %d of %s", agents, conditions.Count(len(in.Seeds), "seed"))
	if agents == 0 {
		return failing(CheckAgents, evidence, "install the chart livecpm-agent in the seeds", pages.Deployment)
	}
	return passed(CheckAgents, "%s", evidence)
}

func (in InstallationInput) judgeGatePolicy() view.LinkedCheck {
	const remedy = "install or repair the chart livecpm-garden"
	link := pages.OfReason(steps.ReasonGateNotInForce)
	switch {
	case in.Policy == nil || in.Binding == nil:
		if in.PolicyErr != nil {
			return unseen(CheckGatePolicy, in.PolicyErr.Error(),
				"get permission to get validatingadmissionpolicies and validatingadmissionpolicybindings", link)
		}
		return failing(CheckGatePolicy, "policy or binding "+gate.PolicyName+" is not in the garden", remedy, link)
	case ptr.Deref(in.Policy.Spec.FailurePolicy, admissionregistrationv1.Fail) != admissionregistrationv1.Fail:
		return failing(CheckGatePolicy, "the policy does not fail closed (failurePolicy is Ignore)", remedy, link)
	case in.Binding.Spec.PolicyName != gate.PolicyName ||
		len(in.Binding.Spec.ValidationActions) != 1 ||
		in.Binding.Spec.ValidationActions[0] != admissionregistrationv1.Deny:
		return failing(CheckGatePolicy, "the binding does not deny what the policy "+gate.PolicyName+" refuses",
			remedy, link)
	case in.Policy.Status.TypeChecking != nil && len(in.Policy.Status.TypeChecking.ExpressionWarnings) > 0:
		// It is not known to be wrong: the API server does not know the types of all fields.
		return unseen(CheckGatePolicy, "the API server warns of an expression of the policy: "+
			flatten(in.Policy.Status.TypeChecking.ExpressionWarnings[0].Warning), remedy, link)
	}
	return passed(CheckGatePolicy, "policy and binding %s exist, fail closed and deny", gate.PolicyName)
}

func flatten(text string) string { return strings.Join(strings.Fields(text), " ") }

func (in InstallationInput) judgeGateInForce() view.LinkedCheck {
	link := pages.OfReason(steps.ReasonGateNotInForce)
	if in.ShootsErr != nil {
		return unseen(CheckGateInForce, in.ShootsErr.Error(), "get permission to list shoots", link)
	}
	var proved int
	for _, proof := range in.Proofs {
		switch problem, remedy := gateProblem(proof.Err); problem {
		case "":
			proved++
		case gate.ProblemNotProved:
			return unseen(CheckGateInForce, fmt.Sprintf("%s: %v", proof.Shoot, proof.Err),
				"get permission to patch shoots/status, which the dry run needs; agents and watchdog prove it, too",
				link)
		default:
			return failing(CheckGateInForce, fmt.Sprintf("%s: %v", proof.Shoot, proof.Err), remedy, link)
		}
	}
	if proved == 0 {
		return passed(CheckGateInForce, "no migration is in flight; the agents prove it before the first step")
	}
	return passed(CheckGateInForce, "proved for %s in flight", conditions.Count(proved, "migration"))
}

func (in InstallationInput) judgeControllerManager() view.LinkedCheck {
	const remedy = "enable controllerManager in the chart livecpm-garden, or look at its pods; without it nobody " +
		"watches the gate and no seed is drained"
	switch {
	case in.Lease == nil && in.LeaseErr != nil:
		return unseen(CheckControllerManager, in.LeaseErr.Error(),
			"get permission to get leases in the namespace garden", pages.Deployment)
	case in.Lease == nil:
		return failing(CheckControllerManager, "no controller manager has ever led", remedy, pages.Deployment)
	}
	age, leader := in.renewed(in.Lease)
	if age > summary.LeaseAge {
		return failing(CheckControllerManager, "nobody has led for "+view.Duration(age), remedy, pages.Deployment)
	}
	return passed(CheckControllerManager, "%s leads", leader)
}

// renewed returns how long ago somebody was alive to renew the lease, and who. A lease that was given up is old.
func (in InstallationInput) renewed(lease *coordinationv1.Lease) (age time.Duration, holder string) {
	holder = ptr.Deref(lease.Spec.HolderIdentity, "")
	if lease.Spec.RenewTime == nil {
		return in.Now.Sub(lease.CreationTimestamp.Time), holder
	}
	age = in.Now.Sub(lease.Spec.RenewTime.Time)
	if holder == "" {
		age = max(age, summary.LeaseAge+time.Second)
	}
	// client-go adds an identifier to the name of the pod.
	name, _, _ := strings.Cut(holder, "_")
	return age, name
}

func (in InstallationInput) judgeVersions() view.LinkedCheck {
	for _, skew := range in.Versions.Skew {
		if skew.Holds {
			return failing(CheckVersions, skew.Text,
				"bring them to the same version (`kubectl livecpm version` shows all of them)", skew.Link)
		}
	}
	if n := len(in.Versions.Skew); n > 0 {
		return passed(CheckVersions, "no difference holds migrations; %s", in.Versions.Skew[0].Text)
	}
	return passed(CheckVersions, "agents, gardenlets and plugin fit")
}

func (in InstallationInput) judgePermissions() view.LinkedCheck {
	link := pages.Base + "usage/README.md#what-the-plugin-can-see"
	var (
		unknown   []string
		not, less lacking
	)
	for _, permission := range in.Permissions {
		switch {
		case permission.Err != nil && !slices.Contains(unknown, permission.For):
			unknown = append(unknown, permission.For)
		case permission.Err != nil || permission.Allowed:
		case permission.Optional:
			less.add(permission)
		default:
			not.add(permission)
		}
	}
	switch {
	case len(not.texts) > 0:
		evidence := "you lack permissions for " + not.String()
		if len(unknown) > 0 {
			evidence += "; not known for " + strings.Join(unknown, ", ")
		}
		return failing(CheckPermissions, evidence,
			"get them if you want to use these commands", link)
	case len(unknown) > 0:
		return unseen(CheckPermissions, "not known for "+strings.Join(unknown, ", "),
			"get permission to create selfsubjectaccessreviews", link)
	case len(less.texts) > 0:
		return passed(CheckPermissions, "you may use all commands; with less to tell: %s", less.String())
	}
	return passed(CheckPermissions, "you may use all commands")
}

// lacking are permissions that are not there, each once.
type lacking struct {
	texts    []string
	commands map[string][]string
}

func (l *lacking) add(permission Permission) {
	if l.commands == nil {
		l.commands = map[string][]string{}
	}
	if _, known := l.commands[permission.Text]; !known {
		l.texts = append(l.texts, permission.Text)
	}
	l.commands[permission.Text] = append(l.commands[permission.Text], permission.For)
}

// String names the commands, and in brackets what they lack.
func (l *lacking) String() string {
	var out []string
	for _, text := range l.texts {
		out = append(out, fmt.Sprintf("%s (%s)", strings.Join(l.commands[text], ", "), text))
	}
	return strings.Join(out, "; ")
}
