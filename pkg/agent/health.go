// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// cacheSynced is healthy as soon as the cluster's cache is filled.
func cacheSynced(c cluster.Cluster) healthz.Checker {
	return func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), time.Second)
		defer cancel()
		if !c.GetCache().WaitForCacheSync(ctx) {
			return errors.New("the cache of the garden is not filled yet")
		}
		return nil
	}
}
