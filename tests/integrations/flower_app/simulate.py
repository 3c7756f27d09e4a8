"""The app in Flower's simulation, with as many clients as HUSHVEC_APP has nodes."""

from client import app as client
from client import terms
from flwr.simulation import run_simulation
from server import app as server

resources = {"client_resources": {"num_cpus": 1}}
run_simulation(server_app=server, client_app=client, num_supernodes=terms["nodes"], backend_config=resources)
