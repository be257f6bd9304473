// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"encoding/json"
	"net/http"
)

// AdminHandler serves readiness where Istio's gateway has it, and the faults:
//
//	GET    /healthz/ready  200 when the routes are known
//	GET    /status         routes, faults, open connections by route
//	GET    /faults         the faults in force
//	POST   /faults         puts one more in force: {"sni": "*.ingress.*", "latency": "20ms"} or {"sni": "...", "cut": "freeze"}
//	DELETE /faults         lifts all
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
	mux.HandleFunc("DELETE /faults", func(w http.ResponseWriter, _ *http.Request) {
		g.Faults.Reset()
		g.Log.Info("Lifted all faults")
		writeJSON(w, g.Faults.List())
	})
	return mux
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(value)
}
