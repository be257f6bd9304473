// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package planted

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/test/landscape/apply"
)

// Faults of this kind are admission policies of the seed: they change or refuse what a probe creates, as a webhook of
// somebody else might. Nobody takes them back meanwhile, and no controller of the seed is disturbed.

const (
	// missingImage is in no registry: its host has no address.
	missingImage = "livecpm.invalid/planted:none"
	// policyTimeout bounds how long the kube-apiserver may take to have a policy in force, and to forget it.
	policyTimeout = time.Minute
	policyPause   = 200 * time.Millisecond
)

//go:embed manifests/policies.yaml
var policyManifests []byte

//go:embed manifests/samples.yaml
var sampleManifests []byte

// Policy is an admission policy of a seed, with what shows that it is in force.
type Policy struct {
	name string
	// sample is the name of an object that the policy judges. It is never kept.
	sample string
	// inForce judges what has become of that object.
	inForce func(object *unstructured.Unstructured, err error) bool
}

// MissingImage lets the pods that pull the image of kube-apiserver refer to one that there is not.
func MissingImage() Policy {
	return Policy{name: "planted-missing-image", sample: "planted-room",
		inForce: changed(missingImage, containerField("image"))}
}

// SilentDruid lets etcd-druid leave alone the Etcd by which it is asked for its images.
func SilentDruid() Policy {
	return Policy{name: "planted-silent-druid", sample: "livecpm-images", inForce: func(
		object *unstructured.Unstructured, err error,
	) bool {
		_, suspended := object.GetAnnotations()["druid.gardener.cloud/suspend-etcd-spec-reconcile"]
		return err == nil && suspended
	}}
}

// RefusedPods refuses the pods that look for room.
func RefusedPods() Policy {
	return Policy{name: "planted-refused-pods", sample: "planted-room",
		inForce: func(_ *unstructured.Unstructured, err error) bool { return apierrors.IsForbidden(err) }}
}

// EndingRelays lets relays have an argument that they do not know.
func EndingRelays() Policy {
	return Policy{name: "planted-ending-relays", sample: "planted-relay",
		inForce: changed("[--planted]", containerField("args"))}
}

// UnknownSlices lets the slice of the canary belong to no service, so that the cluster DNS does not answer for it.
func UnknownSlices() Policy {
	return Policy{name: "planted-unknown-slices", sample: "livecpm-dns-canary", inForce: changed("planted", func(
		object *unstructured.Unstructured,
	) string {
		return object.GetLabels()["kubernetes.io/service-name"]
	})}
}

// Policies returns all policies.
func Policies() []Policy {
	return []Policy{MissingImage(), SilentDruid(), RefusedPods(), EndingRelays(), UnknownSlices()}
}

func changed(to string, field func(*unstructured.Unstructured) string) func(*unstructured.Unstructured, error) bool {
	return func(object *unstructured.Unstructured, err error) bool { return err == nil && field(object) == to }
}

// containerField returns a field of the first container.
func containerField(name string) func(*unstructured.Unstructured) string {
	return func(object *unstructured.Unstructured) string {
		containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "containers")
		if len(containers) == 0 {
			return ""
		}
		container, _ := containers[0].(map[string]any)
		return fmt.Sprint(container[name])
	}
}

// Name returns the name of the policy.
func (p Policy) Name() string { return p.name }

// Plant creates the policy, and waits until it is in force.
func (p Policy) Plant(ctx context.Context, seed client.Client) error {
	objects, err := apply.Decode(policyManifests)
	if err != nil {
		return err
	}
	own := slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetName() != p.name })
	if len(own) == 0 {
		return fmt.Errorf("there is no manifest of policy %s", p.name)
	}
	if err := apply.Objects(ctx, seed, own...); err != nil {
		return err
	}
	return p.await(ctx, seed, p.inForce)
}

// Remove deletes the policy, and waits until it is not in force any more.
func (p Policy) Remove(ctx context.Context, seed client.Client) error {
	meta := metav1.ObjectMeta{Name: p.name}
	for _, object := range []client.Object{
		&admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: meta},
		&admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: meta},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta},
		&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta},
	} {
		if err := client.IgnoreNotFound(seed.Delete(ctx, object)); err != nil {
			return fmt.Errorf("failed to delete %T %s: %w", object, p.name, err)
		}
	}
	return p.await(ctx, seed, func(object *unstructured.Unstructured, err error) bool {
		return !p.inForce(object, err) && err == nil
	})
}

// await waits until what becomes of the sample is as wanted.
func (p Policy) await(
	ctx context.Context, seed client.Client, wanted func(*unstructured.Unstructured, error) bool,
) error {
	samples, err := apply.Decode(sampleManifests)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(samples, func(o *unstructured.Unstructured) bool { return o.GetName() == p.sample })
	if i < 0 {
		return fmt.Errorf("there is no sample %s", p.sample)
	}
	var last error
	if err := wait.PollUntilContextTimeout(ctx, policyPause, policyTimeout, true,
		func(ctx context.Context) (bool, error) {
			object := samples[i].DeepCopy()
			last = seed.Create(ctx, object, client.DryRunAll)
			return wanted(object, last), nil
		}); err != nil {
		return fmt.Errorf("policy %s has not come into force, or has stayed in force: %w", p.name,
			errors.Join(err, last))
	}
	return nil
}
