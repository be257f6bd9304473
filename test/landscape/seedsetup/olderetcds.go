// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package seedsetup

import (
	"context"
	_ "embed"
	"fmt"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/test/landscape/apply"
)

// OlderEtcdsPolicy lets Etcds that are new in a seed have no prefix for the names of their members, as those that are
// older than it.
//
//go:embed manifests/older-etcds.yaml
var OlderEtcdsPolicy []byte

// deployOlderEtcds deploys the policy before there is a gardenlet that creates an Etcd, where it is asked for.
func (s *Setup) deployOlderEtcds(ctx context.Context) error {
	if s.Config.MemberPrefix {
		return nil
	}
	return apply.Manifests(ctx, s.client, OlderEtcdsPolicy)
}

// CheckOlderEtcds returns an error unless the Etcds of the control plane have no prefix for the names of their members.
func CheckOlderEtcds(ctx context.Context, seed client.Reader, namespace string) error {
	for _, etcdRole := range naming.EtcdRoles {
		etcd := &druidcorev1alpha1.Etcd{}
		key := client.ObjectKey{Namespace: namespace, Name: naming.EtcdName(etcdRole)}
		if err := seed.Get(ctx, key, etcd); err != nil {
			return fmt.Errorf("failed to read Etcd %s: %w", key, err)
		}
		if prefix := etcd.Spec.MemberNamePrefix; prefix != nil {
			return fmt.Errorf("failed to make Etcd %s one that is older than the prefix: it has the prefix %q", key,
				*prefix)
		}
	}
	return nil
}
