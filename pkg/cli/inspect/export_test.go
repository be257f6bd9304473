// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
)

// SetOpen replaces what makes a client of an etcd.
func SetOpen(m *Members, open func(etcdclient.Locator, etcdclient.Dial) (etcdclient.Reader, error)) {
	m.open = func(_ context.Context, _ client.Reader, _ *druidcorev1alpha1.Etcd,
		places *places) (etcdclient.Reader, error) {
		return open(places, places.dial)
	}
}
