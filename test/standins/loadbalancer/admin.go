// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/go-logr/logr"
)

// AdminHandler serves what the load balancers do, and their faults:
//
//	GET    /status  the load balancers with their nodes, their open connections, and what faults have done to these
//	GET    /faults  the faults in force, and those that rest until they come back
//	POST   /faults  puts one more in force (see Fault), for instance
//	                {"to": ["seed-b"], "from": ["seed-a"], "sni": "*.ingress.*", "latency": "20ms"} or
//	                {"to": ["seed-b"], "from": ["machine"], "direction": "downstream", "cut": "freeze"} or
//	                {"cut": "freeze", "every": "20s", "for": "3s"}
//	DELETE /faults  lifts all, or with ?cut=freeze, ?latency=20ms or ?loss=10 those that are just that, whatever else
//	                they are for; with ?to=seed-a only for that seed
func AdminHandler(log logr.Logger, faults *Faults, fronts ...*Front) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		statuses := []Status{}
		for _, front := range fronts {
			statuses = append(statuses, front.Status())
		}
		writeJSON(w, statuses)
	})
	mux.HandleFunc("GET /faults", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, faults.List()) })
	mux.HandleFunc("POST /faults", func(w http.ResponseWriter, r *http.Request) {
		var fault Fault
		decoder := json.NewDecoder(r.Body)
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&fault)
		if err == nil {
			err = faults.Add(fault)
		}
		if err != nil {
			http.Error(w, "failed to add fault: "+err.Error(), http.StatusBadRequest)
			return
		}
		log.Info("Added fault", "fault", fault)
		writeJSON(w, faults.List())
	})
	mux.HandleFunc("DELETE /faults", func(w http.ResponseWriter, r *http.Request) {
		selected, err := parseSelection(r.URL.Query())
		if err == nil {
			err = faults.Lift(selected)
		}
		if err != nil {
			http.Error(w, "failed to lift faults: "+err.Error(), http.StatusBadRequest)
			return
		}
		log.Info("Lifted faults", "to", selected.To, "latency", selected.Latency.String(), "cut", selected.Cut,
			"loss", selected.Loss)
		writeJSON(w, faults.List())
	})
	return mux
}

// parseSelection reads which faults a query names.
func parseSelection(query url.Values) (Selection, error) {
	selected := Selection{To: query.Get("to"), Cut: Cut(query.Get("cut"))}
	for key, values := range query {
		if !slices.Contains([]string{"to", "cut", "latency", "loss"}, key) {
			return Selection{}, fmt.Errorf("%s: unknown; there are to, cut, latency and loss", key)
		}
		if len(values) != 1 || values[0] == "" {
			return Selection{}, fmt.Errorf("%s: one value is required", key)
		}
	}
	if latency := query.Get("latency"); latency != "" {
		duration, err := time.ParseDuration(latency)
		if err != nil {
			return Selection{}, fmt.Errorf("latency: %w", err)
		}
		if duration == 0 {
			return Selection{}, errors.New("latency: there is no fault without one")
		}
		selected.Latency = duration
	}
	if loss := query.Get("loss"); loss != "" {
		percent, err := strconv.Atoi(loss)
		if err != nil || percent == 0 {
			return Selection{}, fmt.Errorf("loss: %q is no percentage from 1 to 99", loss)
		}
		selected.Loss = percent
	}
	if selected.all() {
		return selected, nil
	}
	fault := Fault{Cut: selected.Cut, Loss: selected.Loss}
	fault.Latency.Duration = selected.Latency
	return selected, fault.Validate()
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(value)
}
