// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package overlap

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// A kube-apiserver that shuts down, gracefully or because it was not ready in time, deletes its address from the
// endpoints of the Service default/kubernetes. It cannot know that others are there with the same address: the record
// that it deletes in etcd is that of the address. (RemoveEndpoints in pkg/controlplane/reconcilers/lease.go of
// Kubernetes; it takes the last address away, too, since https://github.com/kubernetes/kubernetes/pull/116685.) The
// others write the address again with their next check, every ten seconds, and until then no client inside of the shoot
// gets a new connection.

const (
	// EndpointsPolicy is the name of the ValidatingAdmissionPolicy and of its binding in the shoot.
	EndpointsPolicy = "livecpm-kubernetes-endpoints"

	// someAddress is the condition that the Endpoints have to meet.
	someAddress = "has(object.subsets) && object.subsets.exists(subset, has(subset.addresses) && " +
		"size(subset.addresses) > 0)"
	// message is what the log of a kube-apiserver that shuts down says.
	message = "a live migration of the control plane is in flight, in which kube-apiservers share an address: the " +
		"last one behind the Service default/kubernetes stays"
)

// KeepEndpoints lets nobody take the last address from the Endpoints of the Service default/kubernetes, not even the
// kube-apiservers themselves, whose own requests go through admission as well. Addresses may still be replaced. A
// kube-apiserver writes the EndpointSlice only after the Endpoints, and not if that failed, so the one that kube-proxy
// reads stays as well. What cannot be evaluated is let through.
//
// It takes about a second until all kube-apiservers know of it. One that has just started admits nothing before it
// does.
func KeepEndpoints(ctx context.Context, shoot client.Client) error {
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: EndpointsPolicy}}
	if _, err := controllerutil.CreateOrPatch(ctx, shoot, policy, func() error {
		policy.Spec = admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: ptr.To(admissionregistrationv1.Ignore),
			MatchConstraints: &admissionregistrationv1.MatchResources{
				MatchPolicy: ptr.To(admissionregistrationv1.Equivalent),
				NamespaceSelector: &metav1.LabelSelector{
					MatchLabels: map[string]string{corev1.LabelMetadataName: metav1.NamespaceDefault},
				},
				ObjectSelector: &metav1.LabelSelector{},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					ResourceNames: []string{"kubernetes"},
					RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
						Rule: admissionregistrationv1.Rule{
							APIGroups:   []string{corev1.GroupName},
							APIVersions: []string{corev1.SchemeGroupVersion.Version}, Resources: []string{"endpoints"},
							Scope: ptr.To(admissionregistrationv1.NamespacedScope),
						},
					},
				}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: someAddress, Message: message}},
		}
		return nil
	}); err != nil {
		return fmt.Errorf("failed to write ValidatingAdmissionPolicy %s into the shoot: %w", EndpointsPolicy, err)
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: EndpointsPolicy},
	}
	if _, err := controllerutil.CreateOrPatch(ctx, shoot, binding, func() error {
		binding.Spec = admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        EndpointsPolicy,
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		}
		return nil
	}); err != nil {
		return fmt.Errorf("failed to write ValidatingAdmissionPolicyBinding %s into the shoot: %w", EndpointsPolicy,
			err)
	}
	return nil
}

// ReleaseEndpoints is the end of KeepEndpoints. It can be called without it.
func ReleaseEndpoints(ctx context.Context, shoot client.Client) error {
	// The binding first: without a policy it would be an error.
	for _, object := range []client.Object{
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: EndpointsPolicy}},
		&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: EndpointsPolicy}},
	} {
		if err := shoot.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("failed to delete %T %s from the shoot: %w", object, EndpointsPolicy, err)
		}
	}
	return nil
}
