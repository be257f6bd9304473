// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	_ "embed"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/livecpm/livecpm/test/landscape/apply"
	"github.com/livecpm/livecpm/test/landscape/build"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/network"
	"github.com/livecpm/livecpm/test/landscape/process"
)

// This file is about NetworkPolicies. The kernel puts packets of pods into a queue, and kube-network-policies reads
// them and judges. The rules are there before any pod and stay while the judge is gone. Without a reader the kernel
// drops what comes into the queue, so nothing passes unjudged.

const (
	// policyDaemon is the component that judges, the daemon's name after that of the node, and the binary.
	policyDaemon = "kube-network-policies"
	// policyUser is who it is at the seed's API server; manifests/policies.yaml says what it may.
	policyUser = "livecpm:kube-network-policies"
	// policyQueue is the number of the kernel's queue, which belongs to the node's network namespace.
	policyQueue = 100
	// policyChain holds the rules. Its table is passed after services have got their pods' addresses and before
	// addresses of pods are hidden behind the node's: both ends are seen as the policies mean them.
	policyChain = "LIVECPM-POLICIES"
	policyTable = "iptables -w -t mangle"
	// policyMetricsPort is where the judge serves metrics, on the node's loopback.
	policyMetricsPort = 9080
)

// policyHooks say what comes into the chain. What leaves the node or goes from pod to pod does, like with the judge's
// own rules: except for what the node itself sends, because Kubernetes lets nodes reach their pods whatever policies
// say, and probes depend on it. What goes from a pod to its own node does too. There the judge's own rules would let
// everything pass, also what goes to the seed's API server, which is on the node here and nowhere near it in the field.
var policyHooks = []string{
	"POSTROUTING -m owner ! --uid-owner 0 -j " + policyChain,
	"INPUT -j " + policyChain,
}

// PolicyLog is where the judge of a node writes down what it does, and which packets were gone before its verdict.
func PolicyLog(cfg *config.Config, node config.Node) string {
	return cfg.Dir("logs", node.Name+"-"+policyDaemon+".log")
}

//go:embed manifests/policies.yaml
var policiesManifests string

// policyKubeconfig is what the judges of all nodes of the seed have.
func (n *Node) policyKubeconfig() string {
	return filepath.Join(n.cfg.PKI(n.seed.Name), policyDaemon+".kubeconfig")
}

// permitPolicyDaemons lets the judges of all nodes read what they judge by.
func (n *Node) permitPolicyDaemons(ctx context.Context) error {
	if n.cfg.Policies == config.PoliciesOff {
		return nil
	}
	c, err := n.Client()
	if err != nil {
		return err
	}
	if err := apply.Manifests(ctx, c, []byte(policiesManifests)); err != nil {
		return fmt.Errorf("failed to permit %s to read policies: %w", policyDaemon, err)
	}
	return nil
}

// enforcePolicies makes the rules of the node and starts its judge, or removes both.
func (h *host) enforcePolicies(ctx context.Context) error {
	if h.cfg.Policies == config.PoliciesOff {
		if err := h.processes.Stop(ctx, h.node.Name+"-"+policyDaemon); err != nil {
			return err
		}
		return h.iptables(ctx, noPolicyRules())
	}
	if err := h.iptables(ctx, policyRules(h.cfg.Policies, h.seed)); err != nil {
		return err
	}
	dir, err := build.Tool(ctx, h.cfg, policyDaemon)
	if err != nil {
		return err
	}
	_, err = h.processes.Ensure(ctx, h.daemon(policyDaemon, []string{
		filepath.Join(dir, policyDaemon),
		"--kubeconfig=" + h.policyKubeconfig(),
		"--node=" + h.node.Name,
		"--queue=" + strconv.Itoa(policyQueue),
		"--metrics=127.0.0.1:" + strconv.Itoa(policyMetricsPort),
	}, h.policyKubeconfig()))
	return err
}

// iptables runs a shell script in the network namespace of the node.
func (h *host) iptables(ctx context.Context, script string) error {
	shell, err := build.Installed("sh", "dash")
	if err != nil {
		return err
	}
	for _, program := range []string{"iptables", "iptables-restore"} {
		if _, err := build.Installed(program, "iptables"); err != nil {
			return err
		}
	}
	if _, err := process.Run(ctx, process.Spec{
		Command:    []string{shell, "-ec", script},
		Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Namespaces: process.Namespaces{Net: network.Path(h.node.Netns)},
	}); err != nil {
		return fmt.Errorf("failed to set the rules for policies of %s: %w", h.node.Name, err)
	}
	return nil
}

// policyRules returns the script that makes the rules of a node of the seed. Each node judges what its pods send, and
// what others send to them, so that both ends judge what goes from node to node. The chain is replaced at once, so that
// no packet passes between two versions of it.
func policyRules(policies config.Policies, seed config.Seed) string {
	var rules []string
	if seed.Apart() {
		// The seed's control plane is on none of the nodes. It may reach the pods all the same, as from a node that it
		// shares with them. No pod has its address.
		rules = append(rules, "-s "+seed.IP+" -j RETURN")
	}
	if policies == config.PoliciesPackets {
		rules = append(rules,
			"-m conntrack --ctstate RELATED -j RETURN",
			// What comes back needs no policy of its own.
			"-m conntrack --ctstate ESTABLISHED --ctdir REPLY -j RETURN")
	} else {
		rules = append(rules, "-m conntrack --ctstate ESTABLISHED,RELATED -j RETURN")
	}
	// Without --queue-bypass: nothing passes while nobody judges.
	for _, side := range []string{"-s", "-d"} {
		rules = append(rules, fmt.Sprintf("%s %s -j NFQUEUE --queue-num %d", side, seed.PodCIDR, policyQueue))
	}
	lines := []string{"*mangle", ":" + policyChain + " - [0:0]"}
	for _, rule := range rules {
		lines = append(lines, "-A "+policyChain+" "+rule)
	}
	script := fmt.Sprintf("iptables-restore -w --noflush <<'END'\n%s\nCOMMIT\nEND\n", strings.Join(lines, "\n"))
	for _, hook := range policyHooks {
		script += fmt.Sprintf("%[1]s -C %[2]s 2>/dev/null || %[1]s -I %[2]s\n", policyTable, hook)
	}
	return script
}

// noPolicyRules returns the script that removes what policyRules makes, if it is there.
func noPolicyRules() string {
	var script string
	for _, hook := range policyHooks {
		script += fmt.Sprintf("if %[1]s -C %[2]s 2>/dev/null; then %[1]s -D %[2]s; fi\n", policyTable, hook)
	}
	return script + fmt.Sprintf("if %[1]s -S %[2]s >/dev/null 2>&1; then %[1]s -F %[2]s; %[1]s -X %[2]s; fi\n",
		policyTable, policyChain)
}
