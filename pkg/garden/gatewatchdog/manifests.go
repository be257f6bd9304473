// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gatewatchdog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/charts"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
)

const (
	// KindPolicy is the kind of the policy.
	KindPolicy = "ValidatingAdmissionPolicy"
	// KindBinding is the kind of its binding.
	KindBinding = "ValidatingAdmissionPolicyBinding"

	// The policy has no values and does not depend on the version of Kubernetes, so it is rendered for the oldest one
	// that the chart supports.
	kubernetesVersion = "v1.30.0"
	// release and namespace are the names that the documentation gives. They only occur in labels, which are not
	// compared.
	release, releaseNamespace = charts.Garden, "garden"
)

// Manifests are the two objects that make the gate, as the chart ships them.
type Manifests struct {
	Policy  *admissionregistrationv1.ValidatingAdmissionPolicy
	Binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding
}

// Shipped returns the objects of the chart that is compiled in.
func Shipped() (*Manifests, error) {
	installed := charts.Release{Chart: charts.Garden, Name: release,
		Namespace: releaseNamespace, Kubernetes: kubernetesVersion}
	rendered, err := installed.Render(nil)
	if err != nil {
		return nil, err
	}
	shipped := &Manifests{}
	for _, manifest := range rendered {
		object, _, err := kubernetes.GardenCodec.UniversalDeserializer().Decode([]byte(manifest.Content), nil, nil)
		if err != nil {
			return nil, fmt.Errorf("failed to decode %s: %w", manifest.Name, err)
		}
		switch typed := object.(type) {
		case *admissionregistrationv1.ValidatingAdmissionPolicy:
			if typed.Name == gate.PolicyName {
				shipped.Policy = typed
			}
		case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
			if typed.Name == gate.PolicyName {
				shipped.Binding = typed
			}
		}
	}
	if shipped.Policy == nil || shipped.Binding == nil {
		return nil, fmt.Errorf("failed to find the policy %s and its binding in chart %s", gate.PolicyName,
			charts.Garden)
	}
	return shipped, nil
}

// guarded is one of the two objects, with what is different between their kinds.
type guarded struct {
	kind string
	// shipped is the object as it has to be.
	shipped client.Object
	// empty returns an object to read into.
	empty func() client.Object
	// differences returns the fields of the specification in which the object is not as it has to be.
	differences func(current client.Object) ([]string, error)
	// correct sets the whole specification of the object, so that nothing that was added to it stays.
	correct func(current client.Object)
}

func (m *Manifests) guarded() []guarded {
	return []guarded{
		{
			kind:    KindPolicy,
			shipped: m.Policy,
			empty:   func() client.Object { return &admissionregistrationv1.ValidatingAdmissionPolicy{} },
			differences: func(current client.Object) ([]string, error) {
				return differences(
					&admissionregistrationv1.ValidatingAdmissionPolicy{
						Spec: withDefaults(current.(*admissionregistrationv1.ValidatingAdmissionPolicy).Spec),
					},
					&admissionregistrationv1.ValidatingAdmissionPolicy{Spec: withDefaults(m.Policy.Spec)},
				)
			},
			correct: func(current client.Object) {
				m.Policy.Spec.DeepCopyInto(&current.(*admissionregistrationv1.ValidatingAdmissionPolicy).Spec)
			},
		},
		{
			kind:    KindBinding,
			shipped: m.Binding,
			empty:   func() client.Object { return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{} },
			differences: func(current client.Object) ([]string, error) {
				return differences(
					&admissionregistrationv1.ValidatingAdmissionPolicyBinding{
						Spec: current.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding).Spec,
					},
					&admissionregistrationv1.ValidatingAdmissionPolicyBinding{Spec: m.Binding.Spec},
				)
			},
			correct: func(current client.Object) {
				m.Binding.Spec.DeepCopyInto(&current.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding).Spec)
			},
		},
	}
}

// withDefaults sets what the API server sets when it is left open, so that a policy as shipped and one as stored
// compare equal.
func withDefaults(
	spec admissionregistrationv1.ValidatingAdmissionPolicySpec,
) admissionregistrationv1.ValidatingAdmissionPolicySpec {
	out := *spec.DeepCopy()
	if out.FailurePolicy == nil {
		out.FailurePolicy = new(admissionregistrationv1.Fail)
	}
	if out.MatchConstraints == nil {
		return out
	}
	match := out.MatchConstraints
	if match.MatchPolicy == nil {
		match.MatchPolicy = new(admissionregistrationv1.Equivalent)
	}
	if match.NamespaceSelector == nil {
		match.NamespaceSelector = &metav1.LabelSelector{}
	}
	if match.ObjectSelector == nil {
		match.ObjectSelector = &metav1.LabelSelector{}
	}
	for _, rules := range [][]admissionregistrationv1.NamedRuleWithOperations{match.ResourceRules,
		match.ExcludeResourceRules} {
		for i := range rules {
			if rules[i].Scope == nil {
				rules[i].Scope = new(admissionregistrationv1.AllScopes)
			}
		}
	}
	return out
}

// differences returns the names of the fields below spec in which the objects differ.
func differences(current, shipped runtime.Object) ([]string, error) {
	specs := make([]map[string]any, 0, 2)
	for _, object := range []runtime.Object{current, shipped} {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, fmt.Errorf("failed to compare %T with what the chart ships: %w", object, err)
		}
		spec, _ := content["spec"].(map[string]any)
		specs = append(specs, spec)
	}
	var names []string
	for _, spec := range specs {
		for name := range spec {
			if !slices.Contains(names, name) && !equality.Semantic.DeepEqual(specs[0][name], specs[1][name]) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// sentence joins what is wrong to one line.
func sentence(faults []string) string { return strings.Join(faults, "; ") }
