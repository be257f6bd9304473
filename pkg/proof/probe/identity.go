// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	identityName = "probe"
	// identityValidity outlives any run; the service account and with it the token end with the namespace.
	identityValidity = 24 * time.Hour
	// identityAnswers is how many answers in a row tell that it is known everywhere, with a pause between them.
	identityAnswers = 12
	identityPause   = 20 * time.Millisecond
	identityTimeout = 30 * time.Second
)

// becomeServiceAccount makes a service account in the probe's namespace and returns access as it. The load is put on
// with it and not with the credentials that were given: like the components of a cluster it has a token, and what the
// load may do ends at its namespace and with it. A client certificate would also cost each new connection a signature.
func (p *Probe) becomeServiceAccount(ctx context.Context, client kubernetes.Interface) (*rest.Config, error) {
	meta := metav1.ObjectMeta{Name: identityName, Namespace: p.namespace}
	if _, err := client.CoreV1().ServiceAccounts(p.namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta},
		metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("failed to create ServiceAccount %s/%s: %w", p.namespace, identityName, err)
	}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: p.permissions()}
	if _, err := client.RbacV1().Roles(p.namespace).Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("failed to create Role %s/%s: %w", p.namespace, identityName, err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: identityName},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: identityName, Namespace: p.namespace}},
	}
	if _, err := client.RbacV1().RoleBindings(p.namespace).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("failed to create RoleBinding %s/%s: %w", p.namespace, identityName, err)
	}
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(identityValidity.Seconds()))},
	}
	token, err := client.CoreV1().ServiceAccounts(p.namespace).CreateToken(ctx, identityName, request,
		metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("failed to request a token of ServiceAccount %s/%s: %w", p.namespace, identityName, err)
	}

	config := rest.AnonymousClientConfig(p.config.REST)
	config.BearerToken = token.Status.Token
	return config, p.awaitIdentity(ctx, config)
}

// permissions are what the load does.
func (p *Probe) permissions() []rbacv1.PolicyRule {
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	rules := []rbacv1.PolicyRule{
		rule("", "configmaps", verbCreate, verbGet, verbList, verbWatch, verbUpdate, "patch", verbDelete),
		rule("", "events", verbCreate),
		rule(coordinationv1.GroupName, "leases", verbCreate, verbGet, verbUpdate),
		rule(p.samples().Group, customResource, verbCreate, verbGet, verbList, verbWatch, verbUpdate),
		rule(p.samples().Group, customResource+"/status", verbUpdate),
	}
	if p.aggregated {
		rules = append(rules, rule(metricsAPI.Group, metricsAPI.Resource, verbList))
	}
	return rules
}

// awaitIdentity waits until all instances of the API server know the service account, what it may do, and the probe's
// own resource. Which one answers is not for a client to choose, so several answers over connections of their own are
// asked for.
func (p *Probe) awaitIdentity(ctx context.Context, config *rest.Config) error {
	client, err := newClient(config, &dialer{stats: p.controlStats, lookup: p.lookupFresh, single: true})
	if err != nil {
		return err
	}
	var (
		refused error
		known   int
	)
	if err := wait.PollUntilContextTimeout(ctx, identityPause, identityTimeout,
		true, func(ctx context.Context) (bool, error) {
			_, refused = client.core.ConfigMaps(p.namespace).Get(ctx, identityName, metav1.GetOptions{})
			if apierrors.IsNotFound(refused) {
				// That a resource is not known is NotFound, too, hence a list.
				_, refused = client.dynamic.Resource(p.samples()).Namespace(p.namespace).List(ctx,
					metav1.ListOptions{Limit: 1})
			}
			if known++; refused != nil {
				known = 0
			}
			return known == identityAnswers, nil
		}); err != nil {
		return fmt.Errorf("failed to wait until the API server takes ServiceAccount %s/%s: %w", p.namespace,
			identityName, errors.Join(err, refused))
	}
	return nil
}
