"""What jobs of server_job.py there are, without importing fluid."""
NETS, SERVERS, TRAINERS = ('dense_cut', 'dense_whole', 'sparse'), 2, 2
