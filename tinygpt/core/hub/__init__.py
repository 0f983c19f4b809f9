"""Text of Hugging Face datasets, as their datasets server gives it: names, addresses, answers, sentences, patience.

Whoever asks the server is elsewhere: tinygpt/data in a terminal, core/tab/hub.py in a browser tab.
"""
