// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	authenticationv1alpha1 "github.com/gardener/gardener/pkg/apis/authentication/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

// dialTimeout bounds how long a connection to the shoot may take.
const dialTimeout = 5 * time.Second

var scheme = runtime.NewScheme()

func init() {
	utilruntime.Must(corev1.AddToScheme(scheme))
	utilruntime.Must(gardencorev1beta1.AddToScheme(scheme))
	utilruntime.Must(extensionsv1alpha1.AddToScheme(scheme))
	utilruntime.Must(authenticationv1alpha1.AddToScheme(scheme))
}

// cluster is access to the garden or a seed.
type cluster struct {
	name   string
	rest   *rest.Config
	client client.Client
	kube   kubernetes.Interface
}

func connect(name, kubeconfig string) (*cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("failed to read kubeconfig of %s: %w", name, err)
	}
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("failed to create client for %s: %w", name, err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("failed to create client for %s: %w", name, err)
	}
	return &cluster{name: name, rest: config, client: c, kube: kube}, nil
}

// ShootAccess is how an end user reaches the shoot's API server: by its public name, with an administrator's
// credentials that outlive the run.
func ShootAccess(ctx context.Context, garden client.Client, shoot *gardencorev1beta1.Shoot) (*rest.Config, error) {
	config, _, err := access.Shoot(ctx, garden, shoot, 12*time.Hour)
	return config, err
}

// resolvedBy returns the same access for clients on this machine: the landscape's names are known to its own DNS server
// only.
func resolvedBy(server string, access *rest.Config) *rest.Config {
	config := rest.CopyConfig(access)
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server)
	}}
	config.Dial = (&net.Dialer{Timeout: dialTimeout, Resolver: resolver}).DialContext
	config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	return config
}

// dnsNames returns the names of all records of the shoot in the seed, without those that a migration makes for etcd.
func dnsNames(ctx context.Context, seed client.Client, namespace string) ([]string, error) {
	records := &extensionsv1alpha1.DNSRecordList{}
	own, err := labels.NewRequirement(exposure.LabelKey, selection.NotEquals, []string{exposure.LabelValue})
	if err != nil {
		return nil, fmt.Errorf("failed to select DNSRecords: %w", err)
	}
	selector := client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*own)}
	if err := seed.List(ctx, records, client.InNamespace(namespace), selector); err != nil {
		return nil, fmt.Errorf("failed to list DNSRecords in namespace %s: %w", namespace, err)
	}
	names := []string{}
	for _, record := range records.Items {
		if !slices.Contains(names, record.Spec.Name) {
			names = append(names, record.Spec.Name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return nil, fmt.Errorf("namespace %s holds no DNSRecord", namespace)
	}
	return names, nil
}

// trigger asks for the migration the way an operator does.
func trigger(
	ctx context.Context, garden client.Client, shoot *gardencorev1beta1.Shoot, destination string, classic bool,
) error {
	key := client.ObjectKeyFromObject(shoot)

	if !classic {
		patch := client.MergeFrom(shoot.DeepCopy())
		if shoot.Annotations == nil {
			shoot.Annotations = map[string]string{}
		}
		shoot.Annotations[steps.AnnotationIntent] = "true"
		if err := garden.Patch(ctx, shoot, patch); err != nil {
			return fmt.Errorf("failed to annotate shoot %s: %w", key, err)
		}
	}

	patch := client.MergeFrom(shoot.DeepCopy())
	shoot.Spec.SeedName = &destination
	if err := garden.SubResource("binding").Patch(ctx, shoot, patch); err != nil {
		return fmt.Errorf("failed to bind shoot %s to seed %s: %w", key, destination, err)
	}
	return nil
}

// handedOver reports whether the destination's gardenlet has the shoot and is done with it: after a live migration it
// has reconciled the shoot by itself, or restored it if the shoot has workers, as after a classic one.
func handedOver(shoot *gardencorev1beta1.Shoot, destination string, restores bool) bool {
	operation := shoot.Status.LastOperation
	if shoot.Status.SeedName == nil || *shoot.Status.SeedName != destination ||
		shoot.Status.ObservedGeneration < shoot.Generation ||
		operation == nil || operation.State != gardencorev1beta1.LastOperationStateSucceeded {
		return false
	}
	return operation.Type == gardencorev1beta1.LastOperationTypeReconcile ||
		restores && operation.Type == gardencorev1beta1.LastOperationTypeRestore
}
