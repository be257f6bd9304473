// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// AdminHandler serves readiness where Istio's gateway has it, and the faults:
//
//	GET    /healthz/ready  200 when the routes are known
//	GET    /status         routes, faults, open connections by route
//	GET    /faults         the faults in force
//	POST   /faults         puts one more in force: {"sni": "*.ingress.*", "latency": "20ms"} or
//	                       {"sni": "...", "cut": "freeze"}
//	DELETE /faults         lifts all, or with ?cut=freeze or ?latency=20ms those that are just that,
//	                       whatever their sni
func (g *Gateway) AdminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz/ready", func(w http.ResponseWriter, _ *http.Request) {
		if !g.Ready() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, g.Status()) })
	mux.HandleFunc("GET /faults", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, g.Faults.List()) })
	mux.HandleFunc("POST /faults", func(w http.ResponseWriter, r *http.Request) {
		var fault Fault
		decoder := json.NewDecoder(r.Body)
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&fault)
		if err == nil {
			err = g.Faults.Add(fault)
		}
		if err != nil {
			http.Error(w, "failed to add fault: "+err.Error(), http.StatusBadRequest)
			return
		}
		g.Log.Info("Added fault", "sni", fault.SNI, "latency", fault.Latency.Duration.String(), "cut", fault.Cut)
		writeJSON(w, g.Faults.List())
	})
	mux.HandleFunc("DELETE /faults", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		query.Del("timeout") // client-go adds its own.
		if len(query) == 0 {
			g.Faults.Reset()
			g.Log.Info("Lifted all faults")
			writeJSON(w, g.Faults.List())
			return
		}
		fault, err := parseFault(query)
		if err != nil {
			http.Error(w, "failed to lift faults: "+err.Error(), http.StatusBadRequest)
			return
		}
		g.Faults.Lift(fault)
		g.Log.Info("Lifted faults", "latency", fault.Latency.Duration.String(), "cut", fault.Cut)
		writeJSON(w, g.Faults.List())
	})
	return mux
}

// parseFault returns the fault that a query names, for any SNI.
func parseFault(query url.Values) (Fault, error) {
	fault := Fault{SNI: "*", Cut: Cut(query.Get("cut"))}
	for key := range query {
		if key != "cut" && key != "latency" {
			return Fault{}, fmt.Errorf("%s: unknown; there are cut and latency", key)
		}
	}
	if latency := query.Get("latency"); latency != "" {
		duration, err := time.ParseDuration(latency)
		if err != nil {
			return Fault{}, fmt.Errorf("latency: %w", err)
		}
		fault.Latency.Duration = duration
	}
	return fault, fault.Validate()
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(value)
}
