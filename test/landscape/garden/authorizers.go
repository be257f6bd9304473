// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package garden

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/client/kubernetes"

	"github.com/livecpm/livecpm/test/authorizers"
	"github.com/livecpm/livecpm/test/landscape/apply"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/pki"
	"github.com/livecpm/livecpm/test/landscape/process"
)

// The file has what brings Gardener's SeedAuthorizer and SeedRestriction in front of the garden: its kube-apiserver and
// gardener-apiserver ask gardener-admission-controller.

// Ports of gardener-admission-controller at the garden's address.
const (
	admissionPort        = 2725
	admissionHealthPort  = 2726
	admissionMetricsPort = 2727
)

func admissionServer(cfg *config.Config) (authorizers.Server, *pki.CA, error) {
	ca, err := pki.EnsureCA(cfg.PKI(cfg.Garden.Name), "ca")
	if err != nil {
		return authorizers.Server{}, nil, err
	}
	return authorizers.Server{
		Address: cfg.Garden.IP, Port: admissionPort, HealthPort: admissionHealthPort, MetricsPort: admissionMetricsPort,
		CertDir: cfg.Dir(cfg.Garden.Name, authorizers.Name), CA: ca.CertPEM,
		Kubeconfig: cfg.Dir(cfg.Garden.Name, authorizers.Name+".kubeconfig"),
	}, ca, nil
}

// PrepareAuthorizers writes the authorization configuration of the garden's kube-apiserver and returns its file, and
// the files that it refers to.
func PrepareAuthorizers(cfg *config.Config) (string, []string, error) {
	server, _, err := admissionServer(cfg)
	if err != nil {
		return "", nil, err
	}
	kubeconfig, configuration := cfg.Dir(cfg.Garden.Name, "seed-authorizer.kubeconfig"),
		cfg.Dir(cfg.Garden.Name, "authorization.yaml")
	content, err := server.WebhookKubeconfig()
	if err != nil {
		return "", nil, err
	}
	if err := writeIfChanged(kubeconfig, content); err != nil {
		return "", nil, err
	}
	if content, err = authorizers.AuthorizationConfigurationWithNodes(kubeconfig); err != nil {
		return "", nil, err
	}
	return configuration, []string{kubeconfig}, writeIfChanged(configuration, content)
}

// writeIfChanged leaves a file alone that has the content: a kube-apiserver looks at the modification of what it has
// read.
func writeIfChanged(file string, content []byte) error {
	if before, err := os.ReadFile(file); err == nil && bytes.Equal(before, content) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("failed to make folder of %q: %w", file, err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return fmt.Errorf("failed to write %q: %w", file, err)
	}
	return nil
}

// startAdmissionController starts gardener-admission-controller with upstream's permissions, and lets the API servers
// ask it when it answers. It has to come before the first gardenlet: who is a seed may do nothing without it.
func (g *Garden) startAdmissionController(ctx context.Context, c client.Client) error {
	server, ca, err := admissionServer(g.Config)
	if err != nil {
		return err
	}
	access, webhooks, err := server.Objects(ctx)
	if err != nil {
		return err
	}
	if err := applyTyped(ctx, c, access...); err != nil {
		return err
	}

	serving, err := ca.Ensure(authorizers.Name,
		pki.Request{CommonName: authorizers.Name, IPs: []string{g.Config.Garden.IP}})
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"tls.crt": serving.Cert, "tls.key": serving.Key} {
		if err := writeIfChanged(filepath.Join(server.CertDir, name), content); err != nil {
			return err
		}
	}
	identity, err := ca.Ensure(authorizers.Name+"-client", pki.Request{CommonName: authorizers.User})
	if err != nil {
		return err
	}
	if err := pki.EnsureKubeconfig(server.Kubeconfig, g.server(), ca, identity); err != nil {
		return err
	}
	content, err := server.Configuration("info")
	if err != nil {
		return err
	}
	file := g.Config.Dir(g.Config.Garden.Name, authorizers.Name+".yaml")
	if err := writeIfChanged(file, content); err != nil {
		return err
	}
	daemons, err := cgroups(g.Config)
	if err != nil {
		return err
	}
	if _, err := g.Processes.Ensure(ctx, process.Spec{
		Name:       authorizers.Name,
		Command:    []string{filepath.Join(g.AdmissionTools, authorizers.Name), "--config=" + file},
		Namespaces: g.namespaces(),
		Cgroups:    daemons,
		Files:      []string{file, server.Kubeconfig, filepath.Join(server.CertDir, "tls.crt")},
	}); err != nil {
		return err
	}
	waitCtx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := g.Processes.Wait(waitCtx, authorizers.Name, g.probe(server.HealthURL())); err != nil {
		return err
	}
	return applyTyped(ctx, c, webhooks...)
}

// leftovers are what stands in the way of the chosen kind of garden if it was one of the other kind before.
func leftovers(cfg *config.Config) []client.Object {
	if cfg.Authorizers {
		return leftoversWithoutAuthorizers()
	}
	return leftoversOfAuthorizers()
}

// leftoversOfAuthorizers are the webhooks of a garden that had the authorizers.
func leftoversOfAuthorizers() []client.Object {
	return []client.Object{
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: authorizers.Name}},
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: authorizers.Name}},
	}
}

// leftoversWithoutAuthorizers are the roles of a garden that had no authorizers: they know no seeds.
func leftoversWithoutAuthorizers() []client.Object {
	return []client.Object{
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: v1beta1constants.SeedsGroup}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "livecpm:agent"}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "livecpm:agent", Namespace: v1beta1constants.GardenNamespace},
		},
	}
}

func removeLeftovers(ctx context.Context, c client.Client, cfg *config.Config) error {
	for _, object := range leftovers(cfg) {
		if err := c.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("failed to delete %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

func applyTyped(ctx context.Context, c client.Client, objects ...client.Object) error {
	for _, object := range objects {
		kind, err := apiutil.GVKForObject(object, kubernetes.GardenScheme)
		if err != nil {
			return fmt.Errorf("failed to find the kind of %s: %w", object.GetName(), err)
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return fmt.Errorf("failed to convert %s %s: %w", kind.Kind, object.GetName(), err)
		}
		converted := &unstructured.Unstructured{Object: content}
		converted.SetGroupVersionKind(kind)
		unstructured.RemoveNestedField(converted.Object, "metadata", "creationTimestamp")
		if err := apply.Objects(ctx, c, converted); err != nil {
			return err
		}
	}
	return nil
}
