// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// PortAddress is the address to listen at a port of all interfaces.
func PortAddress(port int32) string { return ":" + strconv.Itoa(int(port)) }

// HealthHandler serves /healthz, which is always good, and /readyz. notReady says why the program is not ready; empty
// if it is.
func HealthHandler(notReady func() string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if why := notReady(); why != "" {
			http.Error(w, why, http.StatusServiceUnavailable)
		}
	})
	return mux
}

// ServeHTTP serves plain HTTP at the port until the context ends.
func ServeHTTP(ctx context.Context, port int32, handler http.Handler) error {
	server := &http.Server{
		Addr: PortAddress(port), Handler: handler,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout:    time.Minute,
		MaxHeaderBytes: 16 << 10,
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("failed to serve HTTP on port %d: %w", port, err)
	}
	return nil
}
