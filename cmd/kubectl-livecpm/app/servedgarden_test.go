// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
	"github.com/livecpm/livecpm/test/seedlook"
)

// resources are what the served garden has: plurals by group and version, with a * if they are not in namespaces.
var resources = map[string][]string{
	"v1": {"configmaps", "events", "*namespaces", "pods", "services"},
	"core.gardener.cloud/v1beta1": {"shoots", "*seeds", "*projects", "*cloudprofiles", "*exposureclasses",
		"backupentries", "shootstates"},
	"operations.gardener.cloud/v1alpha1":     {"bastions"},
	"seedmanagement.gardener.cloud/v1alpha1": {"managedseeds"},
	"admissionregistration.k8s.io/v1":        {"*validatingadmissionpolicies", "*validatingadmissionpolicybindings"},
	"coordination.k8s.io/v1":                 {"leases"},
	"monitoring.coreos.com/v1":               {"prometheusrules", "servicemonitors"},
}

var kinds = map[string]string{"configmaps": "ConfigMap", "events": "Event", "namespaces": "Namespace",
	"shoots": "Shoot", "seeds": "Seed", "projects": "Project", "cloudprofiles": "CloudProfile",
	"exposureclasses": "ExposureClass", "backupentries": "BackupEntry", "shootstates": "ShootState",
	"bastions":     "Bastion",
	"managedseeds": "ManagedSeed", "validatingadmissionpolicies": "ValidatingAdmissionPolicy",
	"validatingadmissionpolicybindings": "ValidatingAdmissionPolicyBinding",
	"pods":                              "Pod", "services": "Service", "leases": "Lease",
	"prometheusrules": "PrometheusRule", "servicemonitors": "ServiceMonitor"}

// asker is the user by whom the served garden is asked.
const asker = "alice@example.org"

// servedGarden is an API server with objects that can be read and patched. It knows no selectors. One can also be
// a seed.
type servedGarden struct {
	mu      sync.Mutex
	server  *httptest.Server
	objects map[string]map[string]any
	// writes and dryRuns are the paths of the patches that were kept, and of those that were not to be.
	writes, dryRuns []string
	// refuse refuses all patches.
	refuse bool
	// after is called after a patch that was kept, to do what an agent does.
	after func()
}

func newServedGarden() *servedGarden {
	g := &servedGarden{objects: map[string]map[string]any{}}
	g.server = httptest.NewServer(http.HandlerFunc(g.serve))
	DeferCleanup(g.server.Close)
	return g
}

// kubeconfig returns the path of a kubeconfig for the garden.
func (g *servedGarden) kubeconfig() string {
	GinkgoHelper()
	file := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(file, fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: c, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: c, namespace: garden-demo}}]
`, g.server.URL), 0o600)).To(Succeed())
	return file
}

// put stores objects. Their kind follows from their type.
func (g *servedGarden) put(objects ...client.Object) {
	GinkgoHelper()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, object := range objects {
		kind := path.Base(strings.ReplaceAll(fmt.Sprintf("%T", object), ".", "/"))
		for groupVersion, plurals := range resources {
			for _, plural := range plurals {
				if kinds[strings.TrimPrefix(plural, "*")] != kind {
					continue
				}
				data, err := json.Marshal(object)
				Expect(err).NotTo(HaveOccurred())
				var fields map[string]any
				Expect(json.Unmarshal(data, &fields)).To(Succeed())
				fields["apiVersion"], fields["kind"] = groupVersion, kind
				at := prefixOf(groupVersion)
				if object.GetNamespace() != "" {
					at += "/namespaces/" + object.GetNamespace()
				}
				g.objects[at+"/"+strings.TrimPrefix(plural, "*")+"/"+object.GetName()] = fields
			}
		}
	}
}

// annotation returns the value of an annotation of the object at the path; empty if it has none.
func (g *servedGarden) annotation(at, key string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	metadata, _ := g.objects[at]["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	value, _ := annotations[key].(string)
	return value
}

func prefixOf(groupVersion string) string {
	if strings.Contains(groupVersion, "/") {
		return "/apis/" + groupVersion
	}
	return "/api/" + groupVersion
}

func (g *servedGarden) serve(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	answer, code := g.answer(r)
	after := g.after
	g.mu.Unlock()
	if r.Method == http.MethodPatch && code == http.StatusOK && r.URL.Query().Get("dryRun") == "" && after != nil {
		after()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer)
}

func (g *servedGarden) answer(r *http.Request) (any, int) {
	if found := discover(r.URL.Path); found != nil {
		return found, http.StatusOK
	}
	where := strings.TrimSuffix(r.URL.Path, "/binding")
	object, found := g.objects[where]
	switch {
	case r.Method == http.MethodPost && strings.HasSuffix(where, "/selfsubjectaccessreviews"):
		return map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
			"status": map[string]any{"allowed": true}}, http.StatusCreated
	case r.Method == http.MethodPost && strings.HasSuffix(where, "/selfsubjectreviews"):
		return map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview",
			"status": map[string]any{"userInfo": map[string]any{"username": asker}}}, http.StatusCreated
	case r.Method == http.MethodPatch && found:
		return g.patch(r, where)
	case found:
		return object, http.StatusOK
	}
	if list := g.list(where); list != nil {
		return list, http.StatusOK
	}
	return status(http.StatusNotFound, metav1.StatusReasonNotFound, "not found: "+where), http.StatusNotFound
}

func status(code int, reason metav1.StatusReason, message string) any {
	return metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: int32(code), Reason: reason, Message: message}
}

// patch changes the object that is at the place, by itself or through its binding.
func (g *servedGarden) patch(r *http.Request, place string) (any, int) {
	if g.refuse {
		return status(http.StatusForbidden, metav1.StatusReasonForbidden, "the garden refuses"), http.StatusForbidden
	}
	body, _ := io.ReadAll(r.Body)
	var patch map[string]any
	if err := json.Unmarshal(body, &patch); err != nil {
		return status(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error()), http.StatusBadRequest
	}
	where := r.URL.Path
	merged := merge(g.objects[place], patch)
	if r.URL.Query().Get("dryRun") == metav1.DryRunAll {
		g.dryRuns = append(g.dryRuns, where)
		return merged, http.StatusOK
	}
	g.writes = append(g.writes, where)
	g.objects[place] = merged
	return merged, http.StatusOK
}

// merge applies a JSON merge patch.
func merge(object, patch map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range object {
		out[key] = value
	}
	for key, value := range patch {
		fields, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(out, key)
		case isObject:
			before, _ := out[key].(map[string]any)
			out[key] = merge(before, fields)
		default:
			out[key] = value
		}
	}
	return out
}

// list returns the objects of the kind, in one namespace or in all.
func (g *servedGarden) list(where string) any {
	plural := path.Base(where)
	if kinds[plural] == "" {
		return nil
	}
	items := []any{}
	for _, name := range sorted(g.objects) {
		folder := path.Dir(name)
		if folder == where || path.Base(folder) == plural && strings.HasPrefix(folder, path.Dir(where)+"/namespaces/") {
			items = append(items, g.objects[name])
		}
	}
	groupVersion := strings.TrimPrefix(strings.TrimPrefix(path.Dir(where), "/apis/"), "/api/")
	groupVersion, _, _ = strings.Cut(groupVersion, "/namespaces/")
	return map[string]any{"apiVersion": groupVersion, "kind": kinds[plural] + "List", "metadata": map[string]any{},
		"items": items}
}

func sorted(objects map[string]map[string]any) []string {
	var out []string
	for name := range objects {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// discover answers the questions of clients about what there is.
func discover(where string) any {
	switch where {
	case "/api":
		return metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case "/apis":
		groups := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}}
		for groupVersion := range resources {
			group, version, found := strings.Cut(groupVersion, "/")
			if !found {
				continue
			}
			discovered := metav1.GroupVersionForDiscovery{GroupVersion: groupVersion, Version: version}
			groups.Groups = append(groups.Groups, metav1.APIGroup{Name: group, PreferredVersion: discovered,
				Versions: []metav1.GroupVersionForDiscovery{discovered}})
		}
		return groups
	case "/apis/authentication.k8s.io/v1":
		return metav1.APIResourceList{GroupVersion: "authentication.k8s.io/v1", APIResources: []metav1.APIResource{
			{Name: "selfsubjectreviews", Kind: "SelfSubjectReview", Verbs: []string{"create"}}}}
	case "/apis/authorization.k8s.io/v1":
		return metav1.APIResourceList{GroupVersion: "authorization.k8s.io/v1", APIResources: []metav1.APIResource{
			{Name: "selfsubjectaccessreviews", Kind: "SelfSubjectAccessReview", Verbs: []string{"create"}}}}
	}
	for groupVersion, plurals := range resources {
		if where != prefixOf(groupVersion) {
			continue
		}
		list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"},
			GroupVersion: groupVersion}
		for _, plural := range plurals {
			name := strings.TrimPrefix(plural, "*")
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: name, Kind: kinds[name],
				Namespaced: name == plural, Verbs: []string{"get", "list", "patch"}})
		}
		return list
	}
	return nil
}

// plannable are a shoot in seed-a that is ready to migrate to seed-b, the seeds, and what a plan asks for.
type plannable struct {
	shoot        *gardencorev1beta1.Shoot
	seedA, seedB *gardencorev1beta1.Seed
}

func newPlannable() plannable {
	GinkgoHelper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "pkg", "cli", "view", "testdata", "plans", "fit.yaml"))
	Expect(err).NotTo(HaveOccurred())
	var input struct {
		Shoot *gardencorev1beta1.Shoot  `json:"shoot"`
		Seeds []*gardencorev1beta1.Seed `json:"seeds"`
	}
	Expect(yaml.Unmarshal(data, &input)).To(Succeed())
	out := plannable{shoot: input.Shoot, seedA: input.Seeds[0], seedB: input.Seeds[1]}
	now := time.Now()
	for _, seed := range input.Seeds {
		seed.Status.LastOperation = &gardencorev1beta1.LastOperation{
			State: gardencorev1beta1.LastOperationStateSucceeded}
		seedlook.InOrder(seed, now)
		seedlook.Say(seed, seedfacts.AnnotationAgent, seedfacts.Agent{Release: "v0.0.1", Gardener: "v1.150.0"})
	}
	seedlook.Connected(out.seedA, out.seedB, now)
	return out
}

// into puts all of it into the garden.
func (p plannable) into(g *servedGarden) {
	GinkgoHelper()
	g.put(p.shoot, p.seedA, p.seedB,
		&gardencorev1beta1.CloudProfile{ObjectMeta: metav1.ObjectMeta{Name: "local"}},
		&gardencorev1beta1.Project{ObjectMeta: metav1.ObjectMeta{Name: "demo"},
			Spec: gardencorev1beta1.ProjectSpec{Namespace: new("garden-demo")}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "garden-demo"}},
		&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: gate.PolicyName}},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: gate.PolicyName}})
}

// asked lets the shoot be on its way to seed-b, with conditions that an agent has just written.
func (p plannable) asked() plannable {
	p.shoot.Annotations = map[string]string{steps.AnnotationIntent: "true"}
	p.shoot.Spec.SeedName = new("seed-b")
	p.shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{
		Conditions: conditions.Initialize(clock.RealClock{}, nil)}
	return p
}

// at lets the steps before the one with the number be done, and the condition of that one be as given.
func (p plannable) at(number int, conditionStatus gardencorev1beta1.ConditionStatus, reason steps.Reason) plannable {
	GinkgoHelper()
	p.asked()
	for i, step := range steps.Table()[:number] {
		change := conditions.Change{Step: step, Role: step.Owner, Status: gardencorev1beta1.ConditionTrue,
			Reason: steps.ReasonCompleted, Message: "done"}
		if i == number-1 {
			change.Status, change.Reason = conditionStatus, reason
		}
		updated, err := conditions.Apply(clock.RealClock{}, steps.Conditions(p.shoot), change)
		Expect(err).NotTo(HaveOccurred())
		p.shoot.Status.LiveMigration.Conditions = updated
	}
	return p
}

func (p plannable) succeeded() plannable {
	GinkgoHelper()
	p.at(len(steps.Table()), gardencorev1beta1.ConditionTrue, steps.ReasonCompleted)
	p.shoot.Annotations, p.shoot.Status.SeedName = nil, new("seed-b")
	return p
}

func (p plannable) aborted() plannable {
	GinkgoHelper()
	p.asked()
	p.shoot.Annotations[steps.AnnotationAbort] = "true"
	updated, err := conditions.Abort(clock.RealClock{}, steps.Conditions(p.shoot),
		conditions.AbortChange{Role: steps.Source, Reason: steps.ReasonAborted, Message: "as before"})
	Expect(err).NotTo(HaveOccurred())
	p.shoot.Status.LiveMigration.Conditions = updated
	return p
}
