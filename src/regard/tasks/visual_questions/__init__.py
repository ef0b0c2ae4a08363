"""Visual question answering: a picture and a question in, answers out."""
