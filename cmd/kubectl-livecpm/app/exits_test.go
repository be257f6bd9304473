// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/spf13/cobra"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/cmd/kubectl-livecpm/app"
	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/cli/document"
	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/history"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
	"github.com/livecpm/livecpm/pkg/proof/probe"
	"github.com/livecpm/livecpm/test/seedlook"
)

// ending is one way in which a command ends.
type ending struct {
	// command is the command, code how it ends, kind what it shows to programs; empty if it shows nothing.
	command string
	code    exit.Code
	kind    document.Kind
	// args are its arguments, garden makes the garden; nil for one in which nothing is.
	args   []string
	garden func(*servedGarden)
	// says is what is in the output.
	says string
}

const progressing = gardencorev1beta1.ConditionProgressing

// in puts the shoot into the garden.
func in(make func(plannable) plannable) func(*servedGarden) {
	return func(g *servedGarden) {
		GinkgoHelper()
		make(newPlannable()).into(g)
	}
}

func ready(p plannable) plannable     { return p }
func succeeded(p plannable) plannable { return p.succeeded() }
func aborted(p plannable) plannable   { return p.aborted() }
func joining(p plannable) plannable   { return p.at(2, progressing, steps.ReasonJoiningEtcdMembers) }
func moving(p plannable) plannable    { return p.at(6, progressing, steps.ReasonStarted) }
func cleaning(p plannable) plannable  { return p.at(7, progressing, steps.ReasonStarted) }
func overdue(p plannable) plannable {
	updated, err := conditions.Apply(clock.RealClock{}, steps.Conditions(joining(p).shoot), conditions.Change{
		Step: steps.Table()[1], Role: steps.Table()[1].Owner, Status: gardencorev1beta1.ConditionFalse,
		Reason: steps.ReasonDeadlineExceeded, Message: "late"})
	Expect(err).NotTo(HaveOccurred())
	p.shoot.Status.LiveMigration.Conditions = updated
	return p
}
func held(p plannable) plannable { return p.at(2, progressing, steps.ReasonVersionSkew) }
func paused(p plannable) plannable {
	p.at(2, gardencorev1beta1.ConditionUnknown, steps.ReasonPaused)
	p.shoot.Annotations[steps.AnnotationPauseBefore] = steps.Table()[1].String()
	return p
}
func single(p plannable) plannable {
	p.shoot.Spec.ControlPlane = nil
	return p
}
func nowhere(p plannable) plannable {
	p.shoot.Spec.SeedName, p.shoot.Status.SeedName = nil, nil
	return p
}

// drained lets the Seed say how far its drain is.
func drained(status gardencorev1beta1.ConditionStatus) func(plannable) plannable {
	return func(p plannable) plannable {
		metav1.SetMetaDataAnnotation(&p.seedA.ObjectMeta, drain.AnnotationDrain, "true")
		p.seedA.Status.Conditions = append(p.seedA.Status.Conditions, gardencorev1beta1.Condition{
			Type: drain.ConditionDrained, Status: status, Reason: "Reason", Message: "so many shoots"})
		return p
	}
}

// skewed lets the agent of seed-a be built with another version than its gardenlet.
func skewed(p plannable) plannable {
	p.seedA.Status.Gardener.Version = "v1.149.0"
	return p
}

// refusing lets the garden refuse all changes.
func refusing(make func(plannable) plannable) func(*servedGarden) {
	return func(g *servedGarden) {
		in(make)(g)
		g.refuse = true
	}
}

// thenAborted lets agents abort the migration as soon as its seed is set.
func thenAborted(g *servedGarden) {
	in(ready)(g)
	g.after = func() { g.put(newPlannable().aborted().shoot) }
}

// thenSucceeded lets agents complete the migration as soon as its seed is set.
func thenSucceeded(g *servedGarden) {
	in(ready)(g)
	g.after = func() { g.put(newPlannable().succeeded().shoot) }
}

// sound lets everything in the garden be in order, and in both seeds, to which there is access.
func sound(g *servedGarden) {
	GinkgoHelper()
	p := newPlannable()
	for _, seed := range []*gardencorev1beta1.Seed{p.seedA, p.seedB} {
		seedlook.Say(seed, seedfacts.AnnotationAgent, seedfacts.Agent{Release: "v0.0.1", Gardener: "v1.150.0",
			Relay: "registry.example.org/livecpm-relay:v0.0.1"})
	}
	p.into(g)
	lease := func(name string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: name},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: new("leader"), RenewTime: new(metav1.NowMicro())}}
	}
	g.put(lease(configv1alpha1.DefaultControllerManagerLeaseName),
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: gate.PolicyName},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: gate.PolicyName,
				ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}}})

	seed := newServedGarden()
	own := metav1.ObjectMeta{Namespace: "garden", Name: "livecpm"}
	seed.put(lease(configv1alpha1.DefaultLeaseName), &monitoringv1.PrometheusRule{ObjectMeta: own},
		&monitoringv1.ServiceMonitor{ObjectMeta: own},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "istio-ingress", Name: "gateway"},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "istio-ingress", Name: "istio-ingressgateway"},
			Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{
				Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}}}})
	kubeconfig := seed.kubeconfig()
	GinkgoT().Setenv(access.EnvironmentSeeds, "seed-a="+kubeconfig+",seed-b="+kubeconfig)
}

func withHistory(g *servedGarden) {
	GinkgoHelper()
	past, err := history.Decode("")
	Expect(err).NotTo(HaveOccurred())
	past.Records = []history.Record{{Namespace: "garden-demo", Name: "live", Result: history.Aborted}}
	content, err := past.Encode()
	Expect(err).NotTo(HaveOccurred())
	g.put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: history.ConfigMapName},
		Data: map[string]string{history.Key: content}})
}

// endings are all ways in which the commands end, but for those elsewhere.
var endings = []ending{
	{"abort", exit.Done, document.Change, []string{"live"}, in(joining), "Aborting"},
	{"abort", exit.No, "", []string{"live"}, in(moving), "can no longer be aborted"},
	{"abort", exit.No, "", []string{"live"}, refusing(joining), "the garden refuses"},
	{"abort", exit.No, "", []string{"live", "--stay"}, in(joining), "only when its live migration is Aborted"},
	{"abort", exit.Error, "", []string{"absent"}, in(joining), "not found"},
	{"check", exit.Done, document.Installation, nil, sound, "All 24 checks passed."},
	{"check", exit.No, document.Installation, nil, in(ready), "could not be made"},
	{"check", exit.Error, "", []string{"--seed-access", "root"}, nil, `--seed-access is "root"`},
	{"completion kubectl", exit.Done, "", nil, nil, "__complete"},
	{"confirm-versions", exit.Done, document.Change, []string{"live", "--versions", "v1.150.0,v1.150.1"}, in(cleaning),
		"v1.150.0,v1.150.1"},
	{"confirm-versions", exit.No, "", []string{"live", "--versions", "v1.150.0,v1.150.1"}, in(joining),
		"before the point of no return"},
	{"confirm-versions", exit.Error, "", []string{"absent"}, nil, "not found"},
	{"drain", exit.Done, document.Change, []string{"seed-a"}, in(ready), "drain requested"},
	{"drain", exit.No, "", []string{"seed-a"}, in(drained(progressing)), "already requested"},
	{"drain", exit.Error, "", []string{"absent"}, in(ready), "not found"},
	{"drain start", exit.Done, document.Change, []string{"seed-a"}, in(ready), "drain requested"},
	{"drain start", exit.No, "", []string{"seed-a"}, in(drained(progressing)), "already requested"},
	{"drain start", exit.Done, document.Change, []string{"seed-a", "--canaries=3"}, in(drained(progressing)),
		"drain-canaries=3"},
	{"drain start", exit.No, "", []string{"seed-a", "--canaries=few"}, in(ready), "set it to a number"},
	{"drain start", exit.Error, "", []string{"absent"}, in(ready), "not found"},
	{"drain cancel", exit.Done, document.Change, []string{"seed-a"}, in(drained(progressing)), "no drain requested"},
	{"drain cancel", exit.No, "", []string{"seed-a"}, in(ready), "no drain of Seed seed-a is requested"},
	{"drain cancel", exit.Error, "", []string{"absent"}, in(ready), "not found"},
	{"drain plan", exit.Done, document.DrainPlan, []string{"seed-a"}, in(ready), "All shoots would leave."},
	{"drain plan", exit.No, document.DrainPlan, []string{"seed-a"}, in(single), "NotHighlyAvailable"},
	{"drain plan", exit.Done, document.DrainPlan, []string{"seed-a", "--fallback=classic"}, in(single), "Classic"},
	{"drain plan", exit.No, document.DrainPlan, []string{"seed-a", "--soak=soon"}, in(ready), "SettingsInvalid"},
	{"drain plan", exit.Error, "", []string{"absent"}, in(ready), "there is no Seed absent"},
	{"drain status", exit.Done, document.Drain, []string{"seed-a"}, in(drained(progressing)), "Drained is Progressing"},
	{"drain status", exit.Error, "", []string{"absent"}, in(ready), "not found"},
	{"drain wait", exit.Done, document.Drain, []string{"seed-a"}, in(drained("True")), "Drained is True"},
	{"drain wait", exit.No, "", []string{"seed-a"}, in(ready), "no drain requested"},
	{"drain wait", exit.Error, "", []string{"absent"}, in(ready), "not found"},
	{"drain wait", exit.Timeout, "", []string{"seed-a", "--timeout", "5m"}, in(drained(progressing)), "timed out"},
	{"drain wait", exit.Operator, "", []string{"seed-a"}, in(drained("False")), "so many shoots"},
	{"dump", exit.Done, document.Dump, nil, in(ready), "Look into it"},
	{"dump", exit.Done, document.Dump, []string{"live"}, in(nowhere), "Look into it"},
	{"dump", exit.No, document.Dump, []string{"live"}, in(joining), "Look into it"},
	{"dump", exit.Error, "", []string{"absent"}, in(ready), "not found"},
	{"events", exit.Done, document.EventList, []string{"live"}, in(nowhere), ""},
	{"events", exit.No, document.EventList, []string{"live"}, in(joining), "Not complete"},
	{"events", exit.Error, "", []string{"absent"}, in(ready), "not found"},
	{"explain", exit.Done, document.Word, []string{"6"}, nil, "EtcdMigrationComplete"},
	{"explain", exit.Done, document.WordList, nil, nil, "BastionExists"},
	{"explain", exit.Error, "", []string{"Bastion"}, nil, "BastionExists"},
	{"get", exit.Done, document.Migration, []string{"live"}, in(aborted), "Aborted"},
	{"get", exit.Done, document.MigrationList, nil, in(aborted), "Aborted"},
	{"get", exit.Done, document.Migration, []string{"live", "-w"}, in(succeeded), "Succeeded"},
	{"get", exit.No, document.Migration, []string{"live", "-w"}, in(aborted), "Aborted"},
	{"get", exit.No, document.Migration, []string{"live", "-w"}, in(ready), "None"},
	{"get", exit.Error, "", []string{"absent", "-w"}, in(ready), "not found"},
	{"history", exit.Done, document.PastMigrationList, nil, withHistory, "Aborted"},
	{"history", exit.No, document.PastMigrationList, nil, in(ready), "No live migration is recorded"},
	{"history", exit.Error, "", []string{"--kubeconfig", "/does/not/exist"}, nil, "kubeconfig"},
	{"in-flight", exit.Done, document.InFlight, nil, in(ready), "Upgrade"},
	{"in-flight", exit.No, document.InFlight, []string{"--before", "upgrade"}, in(joining), "not now"},
	{"in-flight", exit.Error, "", []string{"--seed", "absent"}, in(ready), "there is no Seed absent"},
	{"list", exit.Done, document.MigrationList, []string{"-A"}, in(aborted), "Aborted"},
	{"list", exit.Done, document.MigrationList, nil, in(ready), "No live migrations"},
	{"list", exit.Error, "", []string{"--kubeconfig", "/does/not/exist"}, nil, "kubeconfig"},
	{"logs", exit.Done, document.LogLineList, []string{"live"}, in(nowhere), ""},
	{"logs", exit.No, document.LogLineList, []string{"live"}, in(joining), "Not complete"},
	{"logs", exit.Error, "", []string{"absent"}, in(ready), "not found"},
	{"logs", exit.Error, "", []string{"live", "--runtime-kubeconfig", "/absent"}, in(joining), "runtime cluster"},
	{"pause", exit.Done, document.Change, []string{"live"}, in(joining), "set the annotation"},
	{"pause", exit.No, "", []string{"live", "--pause-before", "2"}, in(joining), "has begun"},
	{"pause", exit.Error, "", []string{"live", "--pause-before", "Elsewhere"}, in(joining), "no step"},
	{"plan", exit.Done, document.Plan, []string{"live", "--to", "seed-b"}, in(ready), "Ready to migrate."},
	{"plan", exit.Done, document.Plan, []string{"live"}, in(ready), "suitable"},
	{"plan", exit.No, document.Plan, []string{"live"}, in(single), "Not ready to migrate"},
	{"plan", exit.Error, "", []string{"absent"}, in(ready), "not found"},
	{"probe", exit.Done, document.Load, []string{"live", "--dry-run=client"}, in(ready), "nothing was sent"},
	{"probe", exit.Error, "", []string{"live"}, in(ready), "failed to request a kubeconfig"},
	{"probe", exit.Error, "", []string{"live", "--dry-run=server"}, in(ready), "use --dry-run=client"},
	{"report", exit.Done, document.Report, []string{"live", "-o", "md"}, in(aborted), "garden-demo/live"},
	{"report", exit.Error, "", []string{"absent"}, in(ready), "not found"},
	{"dashboard", exit.Error, "", []string{"absent"}, in(ready), "not found"},
	{"resume", exit.Done, document.Change, []string{"live"}, in(paused), "removed the annotation"},
	{"resume", exit.No, "", []string{"live"}, in(joining), "no pause"},
	{"resume", exit.Error, "", []string{"absent"}, in(ready), "not found"},
	{"retry", exit.Done, document.Change, []string{"live"}, in(joining), "retry"},
	{"retry", exit.No, "", []string{"live"}, in(paused), "nothing to retry"},
	{"retry", exit.Error, "", []string{"absent"}, in(ready), "not found"},
	{"start", exit.Done, document.Change, []string{"live", "--to", "seed-b"}, in(ready), "Requested"},
	{"start", exit.Done, "", []string{"live", "--to", "seed-b", "-w"}, thenSucceeded, "Succeeded"},
	{"start", exit.No, "", []string{"live", "--to", "seed-b"}, refusing(ready), "the garden refuses"},
	{"start", exit.No, document.Plan, []string{"live", "--to", "seed-b"}, in(single), "was not started"},
	{"start", exit.No, "", []string{"live", "--to", "seed-b", "-w"}, thenAborted, "Aborted"},
	{"start", exit.Error, "", []string{"live"}, in(ready), "--to"},
	{"status", exit.Done, document.Migration, []string{"live"}, in(succeeded), "Succeeded"},
	{"status", exit.Done, document.Migration, []string{"live", "--for", "Aborted"}, in(aborted), "Aborted"},
	{"status", exit.Done, document.Migration, []string{"live", "--for", "5"}, in(moving), "EtcdMigrationComplete"},
	{"status", exit.Done, document.Migration, []string{"live", "--for=1", "--wait=false"}, in(moving), ""},
	{"status", exit.No, document.Migration, []string{"live", "--for=6", "--wait=false"}, in(moving), "has not reached"},
	{"status", exit.No, document.Migration, []string{"live"}, in(aborted), "not completed: Aborted"},
	{"status", exit.No, document.Migration, []string{"live"}, in(ready), "not completed: None"},
	{"status", exit.Error, "", []string{"absent"}, in(ready), "not found"},
	{"status", exit.Timeout, document.Migration, []string{"live", "--timeout", "5m"}, in(joining), "timed out"},
	{"status", exit.Operator, document.Migration, []string{"live", "--timeout", "5m"}, in(held), "Held"},
	{"status", exit.Operator, document.Migration, []string{"live"}, in(paused), "resume it"},
	{"status", exit.Operator, document.Migration, []string{"live"}, in(overdue), "exceeded its deadline"},
	{"status", exit.Operator, document.Migration, []string{"live", "--wait=false"}, in(held), "is held"},
	{"verify", exit.Done, document.Verification, []string{"live", "--partial"}, in(succeeded), "could not be made"},
	{"verify", exit.No, document.Verification, []string{"live"}, in(succeeded), "could not be made"},
	{"verify", exit.No, document.Verification, []string{"live", "--partial"}, in(joining), "Problems found"},
	{"verify", exit.Error, "", []string{"absent"}, in(ready), "not found"},
	{"verify record", exit.Error, "", []string{"live"}, in(ready), "--file"},
	{"version", exit.Done, document.Versions, []string{"--client"}, nil, "plugin"},
	{"version", exit.Done, document.Versions, nil, in(ready), "seed seed-a"},
	{"version", exit.No, document.Versions, nil, in(skewed), "v1.149.0"},
	{"version", exit.Error, "", []string{"--kubeconfig", "/does/not/exist"}, nil, "kubeconfig"},
}

// spec is a text in a file that makes an ending.
type spec struct {
	file, text string
}

// suite is the suite of the plugin on a landscape.
var suite = filepath.Join("..", "..", "..", "test", "suites", "cli_test.go")

// elsewhere are the endings that take more than a garden, and what makes them.
var elsewhere = map[string]spec{
	"dashboard 0": {"dashboard_test.go", `"should serve the page to this machine alone, `},
	"plan 3":      {"planprobe_test.go", `"should end with 3 if the agents do not complete it`},
	// The load takes the API server of a shoot.
	"probe 0":         {suite, `livecpm(ctx, "probe", shootName, "--duration", "20s", `},
	"probe 1":         {"exits_test.go", `"should be 1 for a probe that has found something"`},
	"report verify 0": {"ticket_test.go", `"should write a file that verify knows, and its signature"`},
	"report verify 1": {"ticket_test.go", `"should say no to facts that were changed, `},
	"report verify 2": {"ticket_test.go", `"should not take a key that it cannot verify with for an answer `},
	// It asks etcd members.
	"verify record 0": {suite, `livecpm(ctx, "verify", "record", shootName, "--file",`},
}

// documented are the codes that each command may end with.
var documented = map[string][]exit.Code{
	"abort": {0, 1, 2}, "check": {0, 1, 2}, "completion kubectl": {0}, "confirm-versions": {0, 1, 2},
	"dashboard": {0, 2},
	"drain":     {0, 1, 2}, "drain start": {0, 1, 2}, "drain cancel": {0, 1, 2}, "drain plan": {0, 1, 2},
	"drain status": {0, 2}, "drain wait": {0, 1, 2, 3, 4}, "dump": {0, 1, 2}, "events": {0, 1, 2}, "explain": {0, 2},
	"get": {0, 1, 2}, "history": {0, 1, 2}, "in-flight": {0, 1, 2}, "list": {0, 2}, "logs": {0, 1, 2},
	"pause": {0, 1, 2}, "plan": {0, 1, 2, 3}, "probe": {0, 1, 2}, "report": {0, 2}, "report verify": {0, 1, 2},
	"resume": {0, 1, 2},
	"retry":  {0, 1, 2}, "start": {0, 1, 2}, "status": {0, 1, 2, 3, 4}, "verify": {0, 1, 2}, "verify record": {0, 2},
	"version": {0, 1, 2},
}

// interrupting is an output that does something after each document, and whose reader leaves when there is nothing more
// to do.
type interrupting struct {
	bytes.Buffer
	meanwhile []func()
	interrupt func()
}

// Write writes, and does the next thing, or interrupts.
func (i *interrupting) Write(data []byte) (int, error) {
	defer func() {
		if len(i.meanwhile) == 0 {
			i.interrupt()
			return
		}
		i.meanwhile[0]()
		i.meanwhile = i.meanwhile[1:]
	}()
	return i.Buffer.Write(data)
}

// WriteString does the same; that of the buffer would only write.
func (i *interrupting) WriteString(text string) (int, error) { return i.Write([]byte(text)) }

// commandNames returns the names of all commands but those of cobra.
func commandNames() []string {
	var (
		out  []string
		walk func(*cobra.Command, string)
	)
	walk = func(command *cobra.Command, parent string) {
		for _, child := range command.Commands() {
			name := strings.TrimSpace(parent + " " + child.Name())
			switch {
			case name == "help" || strings.HasPrefix(name, "completion ") && name != "completion kubectl":
				continue
			case child.Runnable() && name != "completion":
				out = append(out, name)
			}
			walk(child, name)
		}
	}
	walk(app.NewCommand(app.Streams{Out: io.Discard, Err: io.Discard}), "")
	return out
}

// writers are the commands that change something in the garden or in a shoot.
var writers = []string{"abort", "confirm-versions", "drain", "drain cancel", "drain start", "pause", "plan", "probe",
	"resume", "retry", "start"}

// silent are the commands whose output has no format: a script, and the address of a page.
var silent = []string{"completion kubectl", "dashboard"}

var _ = Describe("The ways in which commands end", func() {
	var (
		out, errs bytes.Buffer
		garden    *servedGarden
		run       = func(e ending, more ...string) exit.Code {
			GinkgoHelper()
			out.Reset()
			errs.Reset()
			garden = newServedGarden()
			if e.garden != nil {
				e.garden(garden)
			}
			args := append(strings.Fields(e.command), e.args...)
			if !slices.Contains(args, "--kubeconfig") {
				args = append(args, "--kubeconfig", garden.kubeconfig())
			}
			if e.command == "dump" {
				args = append(args, "--file", filepath.Join(GinkgoT().TempDir(), "dump.tar.gz"))
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			streams, args := app.Streams{Out: &out, Err: &errs}, append(args, more...)
			if slices.Contains(e.args, "--timeout") {
				// However slow the machine is, the timeout expires after the first look.
				return app.RunAt(ctx, hurriedClock{FakeClock: testclock.NewFakeClock(time.Now())}, streams, args)
			}
			return app.Run(ctx, streams, args)
		}
	)

	BeforeEach(func() {
		GinkgoT().Setenv("XDG_CONFIG_HOME", GinkgoT().TempDir())
		GinkgoT().Setenv("XDG_CACHE_HOME", GinkgoT().TempDir())
	})

	for i, e := range endings {
		It(fmt.Sprintf("should end %s %v with %d (%d)", e.command, e.args, e.code, i), func() {
			code := run(e)
			Expect(code).To(Equal(e.code), "%s%s", out.String(), errs.String())
			Expect(out.String() + errs.String()).To(ContainSubstring(e.says))
		})
	}

	It("should all be known and all be tried", func() {
		names := commandNames()
		Expect(len(names)).To(BeNumerically(">", 25))
		var tried []string
		for _, e := range endings {
			if !slices.ContainsFunc(e.args, func(arg string) bool { return strings.HasPrefix(arg, "--dry-run") }) {
				tried = append(tried, fmt.Sprintf("%s %d", e.command, e.code))
			}
		}
		for _, name := range names {
			Expect(documented).To(HaveKey(name))
			for _, code := range documented[name] {
				is := fmt.Sprintf("%s %d", name, code)
				if _, there := elsewhere[is]; !there {
					Expect(tried).To(ContainElement(is))
				}
			}
		}
		for name := range documented {
			Expect(names).To(ContainElement(name))
		}
		for _, e := range endings {
			Expect(documented[e.command]).To(ContainElement(e.code), e.command)
		}
	})

	It("should be where it is said that they are, if they are elsewhere", func() {
		for is, where := range elsewhere {
			content, err := os.ReadFile(where.file)
			Expect(err).NotTo(HaveOccurred())
			_, after, _ := strings.Cut(string(content), "var _ = Describe(")
			Expect(after).To(ContainSubstring(where.text), is)
		}
	})

	It("should have changed nothing if a change was refused, and the help says that of nothing else", func() {
		Expect(exit.Table()[exit.No].Text).To(And(HaveSuffix("or a change was refused, which changes nothing"),
			ContainSubstring("the migration did not succeed"), ContainSubstring("could not be collected")))
		for _, e := range endings {
			if e.code != exit.No || !slices.Contains(writers, e.command) {
				continue
			}
			Expect(run(e)).To(Equal(exit.No))
			if slices.Contains(e.args, "-w") {
				Expect(garden.writes).NotTo(BeEmpty(), "what is watched was started")
				continue
			}
			Expect(garden.writes).To(BeEmpty(), "%s %v", e.command, e.args)
		}
	})

	It("should name in the help of start what it writes", func() {
		Expect(run(ending{}, "start", "--help")).To(Equal(exit.Done))
		help := out.String()
		e := ending{command: "start", garden: in(func(p plannable) plannable {
			metav1.SetMetaDataAnnotation(&p.shoot.ObjectMeta, steps.AnnotationAbort, "true")
			return p
		}), args: []string{"live", "--to", "seed-b", "--pause-before", "6", "--dry-run=client"}}
		Expect(run(e)).To(Equal(exit.Done), errs.String())
		var written []string
		for _, found := range regexp.MustCompile(`"([a-z.]+/[a-z-]+)":`).FindAllStringSubmatch(out.String(), -1) {
			written = append(written, found[1])
			Expect(help).To(ContainSubstring("  " + found[1] + " "))
		}
		Expect(written).To(ConsistOf(steps.AnnotationIntent, steps.AnnotationRequestedBy, steps.AnnotationPauseBefore,
			steps.AnnotationAbort))
		Expect(help).To(ContainSubstring("spec.seedName"))
	})

	It("should be 1 for a probe that has found something", func() {
		result := &probe.Result{Writes: 10, WritesFailed: 1}
		Expect(app.ProbeResult(app.Streams{Out: &out, Err: &errs}, result)).To(Equal(exit.No))
	})

	for i, e := range endings {
		if e.kind == "" {
			continue
		}
		It(fmt.Sprintf("should show programs what %s %v shows (%d)", e.command, e.args, i), func() {
			By("JSON")
			Expect(run(e, "-o", "json")).To(Equal(e.code), errs.String())
			decoder := json.NewDecoder(&out)
			for first := true; first || decoder.More(); first = false {
				var head struct {
					APIVersion string           `json:"apiVersion"`
					Kind       document.Kind    `json:"kind"`
					Items      *json.RawMessage `json:"items"`
				}
				Expect(decoder.Decode(&head)).To(Succeed())
				Expect(head.APIVersion).To(Equal(document.APIVersion))
				Expect(head.Kind).To(Equal(e.kind))
				Expect(head.Items != nil).To(Equal(strings.HasSuffix(string(e.kind), "List")))
			}

			By("YAML")
			Expect(run(e, "-o", "yaml")).To(Equal(e.code), errs.String())
			var head metav1.TypeMeta
			Expect(yaml.Unmarshal(out.Bytes(), &head)).To(Succeed())
			Expect(head).To(Equal(metav1.TypeMeta{APIVersion: document.APIVersion, Kind: string(e.kind)}))

			By("JSONPath")
			Expect(run(e, "-o", "jsonpath={.kind}")).To(Equal(e.code), errs.String())
			Expect(out.String()).To(HavePrefix(string(e.kind) + "\n"))

			By("names")
			Expect(run(e, "-o", "name")).To(Equal(e.code), errs.String())
			for line := range strings.Lines(out.String()) {
				Expect(line).To(ContainSubstring("/"))
			}
		})
	}

	It("should have formats for whatever prints something", func() {
		root := app.NewCommand(app.Streams{Out: io.Discard, Err: io.Discard})
		for _, name := range commandNames() {
			command, _, err := root.Find(strings.Fields(name))
			Expect(err).NotTo(HaveOccurred())
			Expect(command.Flags().Lookup("output") != nil).To(Equal(!slices.Contains(silent, name)), name)
			Expect(command.Flags().Lookup("dry-run") != nil).To(Equal(slices.Contains(writers, name)), name)
		}
	})

	It("should write one document for each change of a migration that is watched", func() {
		e := ending{command: "get", args: []string{"live", "-w", "-o", "json"}, garden: in(succeeded)}
		Expect(run(e)).To(Equal(exit.Done))
		Expect(strings.Count(out.String(), "\n")).To(Equal(1), "each is one line")
		e = ending{command: "start", args: []string{"live", "--to", "seed-b", "-w", "-o", "json"}, garden: thenAborted}
		Expect(run(e)).To(Equal(exit.No))
		decoder := json.NewDecoder(&out)
		var kinds []string
		for decoder.More() {
			var head metav1.TypeMeta
			Expect(decoder.Decode(&head)).To(Succeed())
			kinds = append(kinds, head.Kind)
		}
		Expect(kinds).To(Equal([]string{"Change", "Migration"}))
	})

	DescribeTable("should write a document for each migration when all are watched, until that is interrupted",
		func(args ...string) {
			garden := newServedGarden()
			in(held)(garden)
			ctx, interrupt := context.WithCancel(context.Background())
			defer interrupt()
			first := &interrupting{interrupt: interrupt}
			args = append(args, "-o", "json", "--kubeconfig", garden.kubeconfig())
			Expect(app.Run(ctx, app.Streams{Out: first, Err: &errs}, args)).To(Equal(exit.Done), errs.String())
			var head metav1.TypeMeta
			Expect(json.Unmarshal(first.Bytes(), &head)).To(Succeed())
			Expect(head).To(Equal(metav1.TypeMeta{APIVersion: document.APIVersion, Kind: string(document.Migration)}))
		},
		Entry("list", "list", "-A", "-w"),
		Entry("get without a shoot", "get", "-A", "-w"),
	)

	It("should write a line for each change of a drain when all migrations are watched, and no document", func() {
		p := drained(progressing)(held(newPlannable()))
		garden := newServedGarden()
		p.into(garden)
		watched := func(format string, meanwhile ...func()) string {
			// What is not written fails the spec, and does not keep it waiting.
			ctx, interrupt := context.WithTimeout(context.Background(), 20*time.Second)
			defer interrupt()
			written := &interrupting{meanwhile: meanwhile, interrupt: interrupt}
			Expect(app.Run(ctx, app.Streams{Out: written, Err: &errs}, []string{"list", "-A", "-w", "-o", format,
				"--kubeconfig", garden.kubeconfig()})).To(Equal(exit.Done), errs.String())
			return written.String()
		}
		Expect(watched("json")).To(And(Not(ContainSubstring("Drained")), MatchRegexp(`^[^\n]+\n$`)))
		Expect(watched("table", func() {}, func() {
			p.seedA.Status.Conditions[len(p.seedA.Status.Conditions)-1].Message = "one shoot less"
			garden.put(p.seedA)
		})).To(MatchRegexp(`^\S+  .*garden-demo/live Held.*\n` +
			`\S+  Seed seed-a: Drained is Progressing \(Reason\): so many shoots\n` +
			`\S+  Seed seed-a: Drained is Progressing \(Reason\): one shoot less\n$`))
	})

	It("should show what is added to the events, each once, until that is interrupted", func() {
		garden := newServedGarden()
		in(nowhere)(garden)
		report := func(reason string) {
			garden.put(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: reason},
				InvolvedObject: corev1.ObjectReference{Kind: "Shoot", Name: "live"}, Reason: reason,
				LastTimestamp: metav1.Now()})
		}
		report("First")
		ctx, interrupt := context.WithCancel(context.Background())
		defer interrupt()
		written := &interrupting{meanwhile: []func(){func() { report("Second") }}, interrupt: interrupt}
		Expect(app.Run(ctx, app.Streams{Out: written, Err: &errs}, []string{"events", "live", "-f", "-o",
			"jsonpath={.items[*].reason}", "--kubeconfig", garden.kubeconfig()})).To(Equal(exit.Done), errs.String())
		Expect(written.String()).To(Equal("First\nSecond\n"))
	})

	for _, e := range endings {
		if !slices.Contains(writers, e.command) || e.kind != document.Change {
			continue
		}
		It("should keep nothing of a dry run of "+e.command, func() {
			By("really")
			Expect(run(e)).To(Equal(exit.Done))
			Expect(garden.writes).NotTo(BeEmpty())
			Expect(garden.dryRuns).To(BeEmpty())
			writes := len(garden.writes)

			By("by the client")
			Expect(run(e, "--dry-run=client")).To(Equal(exit.Done), errs.String())
			Expect(garden.writes).To(BeEmpty())
			Expect(garden.dryRuns).To(BeEmpty())
			Expect(out.String()).To(And(HavePrefix("Dry run (client): nothing was sent.\n"),
				MatchRegexp(`(?m)^Change: (Shoot garden-demo/live|Seed seed-a): `),
				MatchRegexp(`(?m)^Patch:  (Shoot garden-demo/live|Seed seed-a)(, binding)?: \{`)))

			By("by the server")
			Expect(run(e, "--dry-run=server")).To(Equal(exit.Done), errs.String())
			Expect(garden.writes).To(BeEmpty())
			Expect(garden.dryRuns).To(HaveLen(writes))
			Expect(run(e, "--dry-run")).To(Equal(exit.Done), errs.String())
			Expect(garden.dryRuns).To(HaveLen(writes))

			By("for programs")
			Expect(run(e, "--dry-run=client", "-o", "json")).To(Equal(exit.Done))
			var change struct {
				DryRun string            `json:"dryRun"`
				Object map[string]string `json:"object"`
				Writes []map[string]any  `json:"writes"`
			}
			Expect(json.Unmarshal(out.Bytes(), &change)).To(Succeed())
			Expect(change.DryRun).To(Equal("client"))
			Expect(change.Object).To(HaveKey("name"))
			Expect(change.Writes).To(HaveLen(writes))
		})
	}

	It("should ask no agent for a probe in a dry run of a plan", func() {
		e := ending{command: "plan", args: []string{"live", "--to", "seed-b", "--probe"}, garden: in(ready)}
		Expect(run(e, "--dry-run=client")).To(Equal(exit.Done), errs.String())
		Expect(garden.writes).To(BeEmpty())
		Expect(garden.dryRuns).To(BeEmpty())
		Expect(errs.String()).To(And(ContainSubstring("Seed seed-a {"), ContainSubstring("Seed seed-b {")))
		Expect(run(e, "--dry-run=server")).To(Equal(exit.Done), errs.String())
		Expect(garden.writes).To(BeEmpty())
		Expect(garden.dryRuns).To(HaveLen(2))
	})

	It("should count the shoots that a drain would move before another one, and ask for nothing", func() {
		e := ending{command: "drain plan", args: []string{"seed-a", "-o", "json"}, garden: func(g *servedGarden) {
			p := newPlannable()
			p.seedB.Status.Allocatable = corev1.ResourceList{gardencorev1beta1.ResourceShoots: resource.MustParse("1")}
			other := p.shoot.DeepCopy()
			other.Name, other.Spec.Purpose = "try-out", new(gardencorev1beta1.ShootPurposeEvaluation)
			p.into(g)
			g.put(other)
		}}
		Expect(run(e)).To(Equal(exit.No), errs.String())
		var plan view.DrainPlan
		Expect(json.Unmarshal(out.Bytes(), &plan)).To(Succeed())
		Expect(plan.Counts).To(Equal(drain.Counts{Total: 2, Waiting: 1, Blocked: 1}))
		Expect(plan.Shoots).To(HaveExactElements(
			And(HaveField("Name", "try-out"), HaveField("Destination", "seed-b"), HaveField("Way", drain.Live)),
			And(HaveField("Name", "live"), HaveField("Reason", drain.ReasonNoCandidate))))
		Expect(garden.writes).To(BeEmpty())
	})

	DescribeTable("should be the same with old spellings, and give a hint",
		func(hint string, code exit.Code, garden func(*servedGarden), args ...string) {
			Expect(run(ending{garden: garden}, args...)).To(Equal(code), errs.String())
			Expect(errs.String()).To(ContainSubstring("hint: " + hint))
			Expect(out.String()).NotTo(ContainSubstring("hint"))
		},
		Entry("pause", "--before is now --pause-before;", exit.Done, in(joining), "pause", "live", "--before", "6"),
		Entry("drain, its status", "--status is now a command: kubectl livecpm drain status SEED", exit.Done, in(ready),
			"drain", "seed-a", "--status"),
		Entry("drain, cancelled", "--cancel is now a command: kubectl livecpm drain cancel SEED", exit.Done,
			in(drained(progressing)), "drain", "seed-a", "--cancel"),
		Entry("verify", "--from is now --source;", exit.No, in(succeeded), "verify", "live", "--from", "seed-a"),
		Entry("verify, recording", "--record is now a command: kubectl livecpm verify record SHOOT --file FILE",
			exit.Error, in(ready), "verify", "live", "--record", "/does/not/exist/baseline"),
		Entry("report", "--from is now --recording;", exit.Error, nil, "report", "--from", "/does/not/exist"),
		Entry("a dry run", "--dry-run=true is now --dry-run=server;", exit.Done, in(joining), "abort", "live",
			"--dry-run=true"),
		Entry("no dry run", "--dry-run=false is now --dry-run=none;", exit.Done, in(joining), "abort", "live",
			"--dry-run=false"),
		Entry("no colors", "--no-color is now --color=never;", exit.Done, in(joining), "get", "live", "--no-color"),
	)

	It("should do with the old spellings of a dry run what those of today do", func() {
		e := ending{command: "abort", args: []string{"live"}, garden: in(joining)}
		Expect(run(e, "--dry-run=false")).To(Equal(exit.Done))
		Expect(garden.writes).NotTo(BeEmpty())
		Expect(garden.dryRuns).To(BeEmpty())
		Expect(out.String()).NotTo(ContainSubstring("Dry run"))
		Expect(run(e, "--dry-run=true")).To(Equal(exit.Done))
		Expect(garden.writes).To(BeEmpty())
		Expect(garden.dryRuns).NotTo(BeEmpty())
	})

	It("should use no colors with their old switch", func() {
		e := ending{command: "get", args: []string{"live", "--color=always"}, garden: in(joining)}
		Expect(run(e)).To(Equal(exit.Done))
		Expect(out.String()).To(ContainSubstring("\x1b["))
		Expect(run(e, "--no-color")).To(Equal(exit.Done))
		Expect(out.String()).NotTo(ContainSubstring("\x1b["))
	})
})
